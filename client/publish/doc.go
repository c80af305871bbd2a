// Package publish publishes messages to NATS JetStream, and reports the outcome of
// each. A [Publisher] promises:
//
//  1. Accepted is reported only after the server has acknowledged that the
//     message is on its disk. Duplicate is reported only for an event that is on
//     disk, or that was there and has been counted.
//  2. A message that was not acknowledged is published again until it is, or
//     until the context ends. An event that is stored twice counts once.
//  3. However many callers publish one event at a time, it is published once; an
//     event that was acknowledged lately is not published again.
//  4. Many messages go as atomic batches, each of which costs one sync to disk; a
//     few go as ordinary concurrent publishes.
//
// # Duplicates and conflicts
//
// Messages carry no ids for the server to remember: any client that may publish
// could use the id of an event before it, and the event would be dropped. Instead
// the publisher asks the projectors which events they know (stream.KnownQuestion),
// up to a thousand in one request; before their first answers they fold what is on
// the stream. A known event is a duplicate, and is not published. A key that is
// known of another stage or service is a conflict, an [ErrConflict]. An event for
// which no answer comes within a moment is published and Accepted, and still counts
// once.
//
// An event that is on the stream and not yet folded is known only to the publisher
// that published it. So two publishers may both have a repeat accepted, and a
// conflict between them is found by the projector, which makes a dead letter of it.
package publish
