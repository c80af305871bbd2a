// Package jobs has jobs follow the events about their sources: a view of the stream
// SOURCES on the fold, which applies what it reads by package internal/jobs. That says
// what holds.
//
// One process folds at a time. The position in the stream moves in the transaction that
// applies events (package pglease), so each sequence is applied once. An event about a
// source that nothing is known of yet holds up nothing behind it: the position passes it
// in the transaction that notes that it waits, and it is read from the stream again when
// its source is known, or its wait is over. What breaks a rule is in the dead-letter
// stream, with the reason, before the position passes it, or its wait ends.
package jobs
