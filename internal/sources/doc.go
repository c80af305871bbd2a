// Package sources keeps the sources that are crawled in Postgres. Each change
// commits together with the events that tell it, which go to the stream SOURCES by
// an outbox (package internal/outbox): in order for each source, each once.
//
// A change that changes nothing has no event: a source that is enabled already is
// not enabled again, and an update tells only the fields that differ.
package sources
