// Package jobs applies the events about sources to their jobs. It is a view of the stream
// SOURCES on the fold; package internal/jobs applies the events, and states the invariants.
//
// One process folds at a time. The position in the stream moves in the transaction that
// applies events (package pglease), so each sequence is applied once. An event about a
// source that is not known yet does not block the events behind it: the position passes it
// in the transaction that records that it waits, and it is read from the stream again when
// its source is known, or its wait is over. An event that breaks a rule is in the dead-letter
// stream, with the reason, before the position passes it, or before its wait ends.
package jobs
