// Package work keeps the stream WORK and Postgres in step: an item that becomes
// ready in Postgres gets a message on the stream, and what daemons answer to
// messages becomes moves in Postgres.
//
// # The promise
//
// Postgres (package internal/queue) is the record. The stream hands items out:
// whoever pulls a message has its item, alone. Whatever is killed, the two agree
// again within about a second. It rests on these invariants; the tests
// cite their numbers.
//
//  1. Decided sequences. Before messages are published, Postgres has, in the
//     transaction that takes their entries out of the outbox, which sequence
//     each will get. A message is published with the condition that the
//     stream's last sequence is the one before. So each message is stored once,
//     whoever repeats it, and every sequence of the stream leads to its item.
//  2. One publisher. The leader publishes (package internal/leader). A process
//     that does not know that it has lost the lead fails on the condition of 1, or
//     on the key of the decided block.
//  3. Sequences are not used again. A stream that has lost messages at its end
//     is emptied and goes on far beyond every decided sequence.
//  4. Generations. A message names one generation of an item, in which the item
//     was ready. Its answer is applied to that generation and to none after; a
//     message that is late, doubled or brought back by a crash changes nothing.
//  5. One way out. Whoever takes an item takes its message first: a daemon, the
//     client, and HTTP alike. The client and HTTP start it in Postgres, with a
//     lease, and only then acknowledge the message; from then on the lease
//     holds the item. A client that is behind also starts items that have no
//     message yet, which the leader offers it: the transaction that starts such an
//     item takes its entry out of the outbox, as the one of 1 does that decides its
//     message, and only one of them gets the entry. An offer itself changes nothing.
//  6. Answers are kept. A stream stores the answers of daemons as they sent them.
//     The leader reads them in order, and removes them when their effects are
//     durable. A new leader reads again what is left: applying an answer twice
//     changes nothing, and a stream that has lost its end may have other answers
//     at sequences that were read. An acknowledgement makes the item started and
//     done, a termination started and failed. A negative acknowledgement with a
//     delay takes the item back, and the item gets a new message. One without a
//     delay leaves the item with the server, which hands it out again at once. So
//     does one that is read when its delay is over: another daemon may have the
//     item by then. The client and HTTP give back with a mark what they may not
//     start, at a stage that is paused or full: that is no answer about the item.
//     When the server gives a message up, the lease of the plain daemon that has the
//     item by it has ended, for the last time: the item fails. It gets a new message if
//     nobody has it.
//  7. Mending. The stream is compared with Postgres all the time. A ready item
//     without a message gets one; a message without a ready item is removed;
//     an item with a plain daemon whose message is gone is given back after
//     the lease of its queue, from when it was found or from the
//     daemon's last word. A difference that only one comparison has found may be
//     a message under way, and is left alone. A message that the server has given up
//     counts as gone: what it says of that may be lost.
//     Streams and consumers that somebody has deleted are made anew.
//     The server waits for a daemon by its clock; when that has been set back,
//     all daemons have their time anew.
//  8. Reports once. The position in the stream SHARDS moves in the transaction
//     that applies a report, from where its reader has left it: a reader that
//     another one has replaced meanwhile applies nothing. A report that breaks a
//     rule is in the DLQ stream before the position passes it.
//  9. Late is not lost. An acknowledgement that comes after the lease makes the item done,
//     if nobody has begun it since by a new message: package item has the rule. The
//     lease is that of the queue, which is the ack_wait of its consumer; while a
//     connection is at work, the items behind the one that it is at are kept (package
//     pulls).
//
// Limits: a plain daemon tells nobody that it has pulled; its items show as
// started half a second later. If the server dies within some milliseconds of a
// plain daemon's acknowledgement, that is lost, also one that the server has
// confirmed, and the item is worked again. The Go client and HTTP do not depend on
// either.
package work
