// Package recrawl retries the items of batches that are errors. A row of the table
// batch_error stands for such an item, from when its batch is read (package batches of the
// projector) until a retry succeeds.
//
// # The promise
//
//  1. One count. Whatever changes the state of a row changes the row of its batch in the same
//     transaction. So ok + error + retrying = content_count at every instant.
//  2. One outcome. A retry ends once, with what its worker says: `done` with the item as a
//     batch would have it. The end is a version of the item's outcome, and goes to ClickHouse
//     through the outbox, in that transaction. An attempt that fails, and an item that is dead,
//     was cancelled or is gone, bring no outcome: the one before goes on to count. An item that
//     has failed is not brought back once its error is gone, or is tried with another item.
//  3. Windows. Of the rows that wait, at most [Window] of a category are items of its queue.
//     The others are rows, and a queue that is full or gone stops nobody.
//  4. Bounded. A retry that ends with an error which is tried again waits, as the policy of its
//     category says. After as many outcomes as that has attempts, the item is an error until
//     somebody retries it.
//  5. One order. A transaction locks items, rows by their ids, and batches by their keys, in
//     this order.
//
// The tests cite the numbers.
package recrawl
