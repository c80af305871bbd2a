// Package batches lets batches of crawled items in.
//
//  1. A message leaves the stream BATCHES when what was read of its batch is durable on
//     BATCHES_READ, or the message is a dead letter. If a process dies between the two, or the
//     modes change, the batch is read again, which changes nothing as long as its object has
//     the same content.
//  2. A message whose mode is off stays on the stream. When the modes change, all messages
//     are looked at again.
//  3. An object that is missing, or changes whenever it is read, is tried again until the
//     patience of the readers is over, and then the message is a dead letter, which can be
//     replayed. Too large and damaged objects are dead letters at once. A storage that does
//     not answer is tried again for as long as that lasts.
//  4. Buckets take turns, and one bucket has at most half of the readers.
//  5. Memory is bounded: by the number of messages that wait, the number of batches that are
//     read at once, the bounds of objects, and the bytes of what was read and is not published.
//  6. The object of a notification says which batch it holds, by its metadata or its key. Each
//     object of a notification is read by itself. A notification that comes twice changes
//     nothing, and neither does one that says nothing of an object that was stored.
//
// Readers hand on what they have read, and go on with the next message. One goroutine publishes
// all that has come while it published what was before, in one atomic batch; others remove the
// messages. So many batches share a sync to disk, and readers wait for none (stages.go).
//
// PUT /objects answers 201 when an object is on disk, 200 when it was there already, and
// never overwrites one. After 503 the same request may be sent again.
package batches
