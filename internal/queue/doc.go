// Package queue keeps the state of items of any kind in Postgres: where an item
// is, who has it, what is ready in which queue, and all that has happened. It
// hands nothing out: package handout does, and package work (projector/work)
// announces on the stream WORK what has become ready. A [Kind] says where the
// state of its items rests and what follows from their moves.
//
// # The promise
//
//  1. One judge. Every change of a status is decided by [item.Decide] on a row
//     that the transaction has locked, and by nothing else. So no move is made
//     that the rules forbid, and two takers never get the same item.
//
//  2. One lock. A transaction locks the rows of the items that it is about, in
//     the order of their ids, before it touches any other row of theirs. So
//     transactions do not deadlock.
//
//  3. One place. An item in a queue is in one of the tables ready, delayed,
//     claim and failed, or in none: in ready or delayed if it is new and in the
//     queue, in claim if it is started, in failed if it has failed. The row that
//     says so changes with the status.
//
//  4. One announcement. With the row in ready goes one row in outbox, in the
//     same transaction, that names the item, the queue and the generation.
//
//  5. One count. What a transaction adds to each counter goes with it. The
//     summary is the sum of all that was added, at any time.
//
//  6. Leases are the database's. They begin and end by its clock, and what has
//     expired goes back to new within [Config.Sweep], with an attempt counted;
//     an item without attempts left fails, and is dead. Whoever completes it after that
//     has completed it, unless it was begun again. When that clock is set
//     back, what began in the future begins anew, as delays do. When it jumps
//     ahead, leases end early: two may have an item then, and one of them has a
//     generation that counts no more.
//
//     A plain daemon has no lease here but that of its message (package work). The
//     generation of the message names its taking, too.
//
//  7. Limits are held before an item can be taken. In a queue with a limit, an item
//     that is published on WORK or started has a row in slot, and nothing else has
//     one. [Store.Admit] counts these rows, one transaction at a time for each
//     group, and an item whose group is full waits in parked until one of the group
//     is in. So a limit holds for HTTP, the Go client and plain daemons together. A
//     rate makes an item of its key wait in delayed. Stages of shards have no slots:
//     Start and the consumer hold their limit.
//
//  8. No change without its hooks. The hooks of a queue, see [Store.OnMove] and [Store.OnFollowed], are called in
//     the transaction that changes its items, for every change. So what a system keeps of
//     its items follows each change once. What a system bars is not brought back, see [Store.BarRetry].
//
// The tests cite the numbers.
package queue
