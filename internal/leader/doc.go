// Package leader has one of many processes lead, by an advisory lock of Postgres.
//
// # What holds
//
//  1. One holder. A connection of the leader's own holds the lock, and Postgres
//     gives it to no other. A candidate that gets it begins a term.
//  2. Succession. When that connection ends, whether the leader has ended its term,
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
// # What does not hold
//
// A stalled leader does not know that it has lost the lead: when it goes
// on, it may act for a moment beside its successor. What two must not do has to
// refuse the first of them by itself: by a condition that only one of two writers
// can meet, or by asking in the same statement whether the lock is still the
// term's; see Term.Lock.
package leader
