// Package integrity notices messages that NATS streams have lost.
//
// A NATS server that cannot read a record skips it, or cuts off the records
// behind it, and goes on. Its clients see a gap, as after a deletion. A Checker
// tells the two apart, and names what is lost:
//
//  1. The end. The checker notes the last sequence of each stream in a file of
//     its own, outside of NATS, and what is acknowledged to publishers of this
//     process (Acked) in another one. A stream that ends before it has lost the messages
//     between; one that has another message at that sequence has lost them, too,
//     and has given their sequences to others.
//  2. The middle. From streams whose messages are only ever removed at the front
//     (Stream.Whole) nothing else goes missing. A gap that was not there before the
//     server started again is a loss. One that appears while the server runs is a
//     deletion, unless the server counts it among what it has lost.
//  3. Records that the server claims to have. A scrub reads each stream from its
//     first message to its last. What is neither delivered nor deleted is lost. A
//     scrub runs when the checker starts, once a day, and when a reader says that
//     messages do not come (Suspect).
//  4. What the server says. It tells which messages it has lost (StreamState.Lost)
//     until it is restarted.
//
// What is found stays found, over restarts of everything, until somebody accepts
// it (Accept). It is written to the bucket of checkpoints, so that the command line
// can show it and all processes learn of the acceptance.
//
// What the checker cannot notice: the loss of messages at the end of a stream that
// other processes published within the last Config.Every before a crash, or this one
// within the last 10 ms; and which messages are lost of a stream that is not Whole,
// when the server has cut a block before it first counted it. It tells how many then.
package integrity
