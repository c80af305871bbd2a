// Package outbox publishes to a JetStream stream what transactions of Postgres
// have decided to publish. A change and its message commit together or not at all.
//
// # The promise
//
//  1. Nothing lost. A message is a row until the stream has acknowledged it.
//  2. Once. The stream has each message once, by its id, whatever is killed and for
//     however long: before the first attempt the row says where the stream ended,
//     and whoever takes over reads from there which messages it has. Within a term,
//     the stream's own window of message ids does the same for an attempt whose
//     answer was lost.
//  3. Order. Messages of one key are published in the order in which they were
//     added: a block of messages in flight has one of a key at most, and the next
//     block begins when this one is acknowledged. Whoever adds messages of a key
//     holds a lock of that key until the commit, such as that of its row.
//  4. One publisher. The leader publishes (package internal/leader). One that has
//     lost the lead and does not know it repeats messages that its successor
//     publishes too, for as long as its connection to NATS lives: for less than the
//     window of message ids.
//
// Work queues have an outbox of their own (package projector/work), whose entries
// are not messages: priority, limits and the state of the item decide when an entry
// is published, with which text, and whether at all.
package outbox
