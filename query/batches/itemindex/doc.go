// Package itemindex finds the outcomes of items by their content id. It is a copy, on the
// disk of the process, of what ClickHouse has of outcomes beside their contents.
//
//  1. Exact. An answer has every outcome that was stored when it was asked for. The index is a
//     copy up to a sequence of the stream BATCHES_READ, and answers only when that is no less
//     than the end of the last cut that the projector has decided. It asks for that end each
//     time. Whoever asks is told otherwise to ask ClickHouse.
//  2. One baseline. The rows of the copy are those of one table of ClickHouse and of one
//     stream. When either is another one, when rows were changed (as by package reclassify) or
//     removed, or when the position went back (as after a restore), the index is made again. It
//     looks every two seconds, and answers nothing when it has not for ten. While nothing
//     is being stored, it compares the number of its rows with that of ClickHouse.
//  3. Nothing depends on it. It may be lost, damaged or without room at any time: it answers
//     nothing then, and is made again.
//  4. Bounded. It takes turns with the projector: while batches are stored, it reads a tenth of
//     the time. Its memory does not grow with the number of items.
//
// Rows are in the order in which they are shown, so a lookup is a scan of the rows of one id.
// Writes are not logged. Rows that a process had not written to tables when it died are read
// again, since the position is written with them, in one order.
package itemindex
