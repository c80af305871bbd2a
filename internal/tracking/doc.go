// Package tracking keeps the state of shards in Postgres: which item (a shard
// of a file) is where at which stage, who has it, what stands in a queue, and
// all that has happened. Commands by HTTP, work queues over NATS and the
// sweeper of this package work on the same state by the same operations.
//
// # The promise
//
//  1. One judge. Every change of a status is decided by [shard.Decide] on a row
//     that the transaction has locked, and by nothing else. So no move is made
//     that the rules forbid, and two takers never get the same item.
//  2. One lock. A transaction locks the rows of pipeline_tracking that it is
//     about, in the order of their ids, before it touches any other row of
//     theirs; takers skip what is locked. So transactions do not deadlock.
//  3. One place. An item at a stage is in one of the tables ready, delayed,
//     claim and failed, or in none: in ready or delayed if it is new and the
//     stage before is done, in claim if it is started, in failed if it has
//     failed. The row that says so changes with the status.
//  4. One announcement. With the row in ready goes one row in outbox, in the
//     same transaction, that names the item, the stage and the generation.
//  5. One count. What a transaction adds to each counter goes with it. The
//     summary is the sum of all that was added, at any time.
//  6. Leases are the database's. They begin and end by its clock, and what has
//     expired goes back to new within [Config.Sweep], with an attempt counted;
//     an item without attempts left fails, and is dead. When that clock is set
//     back, what began in the future begins anew, as delays do. When it jumps
//     ahead, leases end early: two may have an item then, and one of them has a
//     generation that counts no more.
//
// The tests cite the numbers.
package tracking
