// Package leader elects one of many processes by an advisory lock of Postgres.
//
// # The promise
//
//  1. One holder. The leader has a connection that holds the lock, and Postgres
//     grants the lock to no other. A candidate that gets it begins a term.
//  2. Succession. When that connection ends, because the leader has ended its term,
//     has died, or has lost Postgres, the lock is free, and a candidate takes it
//     within Config.Retry.
//  3. Silence. Postgres ends the connection of a leader that has not spoken for
//     Config.Silence: its process is stalled, or its machine is gone. A leader
//     speaks five times as often, and ends its term when it has had no answer for
//     three fifths of that time.
//  4. The term's context. It ends when the candidate finds that it no longer leads,
//     with the cause ErrLost. The lock stays held until the term's function has
//     returned, also when the caller ends the context.
//
// # What it does not promise
//
// A process that was stalled does not know at once that it has lost the lead: for a
// moment it may act beside its successor. A write that must not be done twice needs
// its own guard: a condition that only one of two writers can meet, or a check in
// the same statement that the term still holds the lock; see Term.Lock.
package leader
