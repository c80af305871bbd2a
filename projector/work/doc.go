// Package work keeps the stream WORK and Postgres in step: what becomes ready
// there appears here, and what daemons answer here stands there.
//
// # The promise
//
// Postgres (package internal/tracking) is the record. The stream hands out: who
// pulls a message has the item, and nobody else has. Whatever is killed, they
// agree again within about a second. It rests on these invariants; the tests
// cite their numbers.
//
//  1. Decided sequences. Before messages are published, Postgres has, in the
//     transaction that takes their entries out of the outbox, which sequence
//     each will get. A message is published with the condition that the
//     stream's last sequence is the one before. So each is stored once, whoever
//     repeats it, and every sequence of the stream leads to its item.
//  2. One publisher. The process that holds an advisory lock of Postgres
//     publishes. One that has lost the lock unawares fails on the condition of
//     1, or on the key of the decided batch. Postgres takes the lock from one
//     that is silent for some seconds, because it stands still or is gone.
//  3. Sequences are not used again. A stream that has lost messages at its end
//     is emptied and goes on far beyond every decided sequence.
//  4. Generations. A message names one readiness of an item. Its answer is
//     applied to that one and to nothing that came after; a message that is
//     late, doubled or brought back by a crash changes nothing.
//  5. One way out. Whoever takes an item takes its message first: a daemon, the
//     client, and HTTP alike. The client and HTTP start it in Postgres, with a
//     lease, and only then acknowledge the message; from then on the lease
//     holds the item.
//  6. Answers are kept. What daemons answer is captured by a stream as they
//     sent it, read in order, and removed behind their effects. Who takes the
//     office reads again what is left: to apply it twice changes nothing, and a
//     stream that has lost its end may have other answers where it was read. An
//     acknowledgement makes the item started and done, a termination started
//     and failed. A negative acknowledgement with a delay takes the item back
//     and has it come again by a new message; one without leaves it with the
//     server, which hands it out again at once, and so does one that is read
//     when its delay is over: another daemon may have the item by then. What the
//     client and HTTP may not start, at a stage that is paused or full, they
//     give back with a mark: that is no answer about the item. When the server
//     gives a message up, the item fails if a plain daemon has it by that one,
//     and comes again by a new message if nobody has.
//  7. Mending. The stream is compared with Postgres all the time. A ready item
//     without a message gets one; a message without a ready item is removed;
//     an item with a plain daemon whose message is gone is given back after
//     the time that a silent daemon has, from when it was found or from the
//     daemon's last word. What is seen only once may be under way and is left
//     alone.
//     The server waits for a daemon by its clock; when that has been set back,
//     all daemons have their time anew.
//  8. Reports once. The position in the stream SHARDS moves in the transaction
//     that applies a report, from where its reader has left it: one whose place
//     another has taken meanwhile applies nothing. A report that breaks a rule
//     is in the DLQ stream before the position passes it.
//
// Limits: a plain daemon tells nobody that it has pulled; its items show as
// started half a second later. Its acknowledgement is lost if the server
// dies within some milliseconds of it, and the item is then worked again; so
// is what a client that asks for more than one answer has been told. The
// client does not depend on either.
package work
