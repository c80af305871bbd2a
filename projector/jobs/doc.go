// Package jobs has jobs follow the events about their sources: it reads the stream
// SOURCES by a durable consumer, which any number of processes share, and applies what
// it reads by package internal/jobs, which says what holds.
//
// An event is acknowledged after its effects have committed. What breaks a rule, and
// what is about a source that does not become known, goes to the dead-letter stream
// with the reason, and holds up nothing behind it.
package jobs
