// Package publish puts messages on NATS JetStream, and tells of each what became of
// it. A [Publisher] promises:
//
//  1. An outcome of Accepted or Duplicate is reported only after the server
//     has said that the message is on its disk, or that the same event is, or was
//     and has been counted.
//  2. A message whose fate is unknown, because an answer did not come, is
//     published again until the fate is known or the context ends. An event that
//     is stored twice counts once.
//  3. An event that this publisher is publishing, or has had acknowledged lately,
//     is published once, by however many callers.
//  4. Many messages go as atomic batches, each stored whole by one sync to
//     disk; a few go as ordinary publishes side by side.
//
// # Duplicates and conflicts
//
// Messages carry no ids for the server to remember: whoever may publish could use
// an event's id before it, and have it dropped. Before events are published, the
// projectors are asked which of them are known (stream.KnownQuestion), a thousand
// in one request; the first questions have them fold what was on the stream
// before. What they know is a duplicate and is not published. What they know of
// another stage or service is a conflict, an [ErrConflict]. What nobody answers
// for within a moment is published and Accepted, and counts once all the same.
//
// What is on the stream and not folded yet nobody knows but the publisher that has
// had it acknowledged. So two publishers may both have a repeat accepted, and a
// conflict between them is found by the projector, which makes a dead letter of it.
package publish
