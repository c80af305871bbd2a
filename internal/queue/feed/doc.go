// Package feed fills a queue from the rows of a system, a window at a time: adding an item
// costs many times what a row costs, so of a million rows that wait only some are items.
// The system keeps the rows in tables of its own, and says with SQL which of them wait.
//
// # The promise
//
//  1. Once. The items, and what the system notes of the rows that became items, are one
//     transaction. So a process that is killed leaves both or neither, and no row becomes
//     two items.
//
//  2. One at a time. The transactions of a feed, in whichever process, exclude each other,
//     and so do the changes of its rows that are made with [Feed.Change]. So nothing is fed
//     of a group once the call that has paused or cancelled it has returned.
//
//  3. At most the window. A feed adds nothing while its queue has that many items that have
//     not ended, whoever has added them. Items that are retried may go beyond it.
//
//  4. Fair. What there is room for goes to the groups with the fewest items that have not
//     ended, and among these to the one that was fed least recently by this process. So a
//     group of a million rows does not hold up one of ten. A system may bound the items of
//     each group ([Rows]).
//
//  5. No row stops the others. A row that no item can hold is noted with the rule that it
//     breaks, in the same transaction.
//
// The tests cite the numbers.
package feed
