// Package client is what a service imports to tell Millrace what happens, and to
// work its queues. It is the front of three packages, which can be imported by
// themselves:
//
//   - [emit]: [Client] is for services that must not block. Emit puts an event
//     into a bounded buffer, or a spool on disk, and returns.
//   - [publish]: [Publisher] is for callers who wait, on NATS JetStream, to know of
//     each message what became of it.
//   - [work]: [Work] takes items of a queue and has a handler work them; [Enqueue]
//     and [EnqueueTx] add items.
//
// Each says in its own comment what it promises.
package client
