// Package acts runs bulk actions: it applies one move to all rows that a filter matches, in
// batches called turns, and keeps a record of each action. A system adds a [Subject], which
// finds the members of an action by its filter, and moves those of a turn in a transaction.
//
// # The promise
//
//  1. Decided once. The members of an action are the rows that the filter matched
//     when it began, each with its generation at that time. A row that fails later,
//     or fails again, is not a member.
//  2. Each member once. A turn moves its members, counts them and removes their
//     row of act_batch in one transaction. So an action resumes after its process
//     was killed, and the numbers of members that are done, skipped, failed and
//     left always add up to all members.
//  3. No member that has changed. A retry skips a member that is no longer failed
//     in its generation, whoever has moved it: a worker, a person or another
//     action. A cancellation skips a member that has ended. Where the subject has
//     no generations, a member is skipped if the filter no longer matches it.
//  4. Idempotent. A request with the key of an earlier one by the same caller
//     returns the action that the earlier one began.
//  5. Bounded. A turn has at most [Turn] members, so that no row is locked for
//     long, and actions alternate turn by turn. An action has at most [Most]
//     members. It names the first [Named] of those that it skipped, and of those
//     that it could not move. Its record is kept for [Keep].
//
// The tests cite the numbers.
//
// # What is no bulk action
//
// Dead letters are messages of a stream, which a transaction of Postgres cannot move.
// Package dlq replays and purges them by a filter, and reports what it did. Reprocessing an
// upload is one statement, whose progress is that of the upload.
package acts
