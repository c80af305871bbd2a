// Package client is what a service imports to tell Millrace what happens.
//
// [Client] is for services that must not be kept: Emit puts an event into a
// bounded buffer, or a spool on disk, and returns; the event is delivered over
// NATS or HTTP, with a circuit breaker between. Its comment says what it
// promises. [Publisher] is for callers who wait, on NATS JetStream, to know of
// each message what became of it:
//
//  1. An outcome of Accepted or Duplicate is reported only after the server
//     has said that the message is on its disk.
//  2. A message whose fate is unknown, because an answer did not come, is
//     published again under the same id until the fate is known or the
//     context ends; within the stream's dedup window it is stored once.
//  3. Many messages go as atomic batches, each stored whole by one sync to
//     disk; a few go as ordinary publishes side by side.
//
// # Duplicates in batches
//
// The server refuses a whole batch for one id that the stream already has,
// and does not say which. The publisher then asks: it publishes each id with
// an empty body and with a rollup that does not exist. A known id is
// acknowledged as a duplicate, which the server decides first; an unknown one
// is refused for the rollup. Nothing is stored either way, so this runs at the
// speed of the network. The rest of the batch then goes again. Where most
// batches hold duplicates it asks first.
//
// (Of all conditions that can't be met it has to be this one. Expected
// sequences are looked at before duplicates by a single server. An expected id
// that is not the last one's ends a replicated stream: nats-server 2.15.2 takes
// it for a failed write on all replicas.)
package client
