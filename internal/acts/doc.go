// Package acts does one thing to whatever a filter matches, in turns, and keeps a record of it.
// What acts can be about is a [Subject], which a system gives: how its members are found by a
// filter, and how those of a turn are moved in a transaction.
//
// # What holds
//
//  1. Decided once. The members of an act are those that the filter matched when
//     it began, each in the generation that it had then. What fails later, or fails
//     again, is not a member.
//  2. Each member once. A turn moves its members, counts them and removes their
//     row of act_batch in one transaction. So an act goes on where it was when its
//     process is killed, and done, skipped, failed and what is left add up to the
//     members at any moment.
//  3. Only what is still so. A member of a retry that is no longer failed in that
//     generation is skipped, whoever has moved it: a worker, a person or another
//     act. A member of a cancellation is skipped once it has ended. A member whose
//     subject has no generations is skipped when its filter does not match it any more.
//  4. Once asked, once done. A request with the key of an earlier one by the same
//     caller returns the act of that one.
//  5. Bounded. A turn has [Turn] members, so that no row is locked for long; acts
//     take turns; an act has [Most] members; of those that it skipped, and of those
//     that it could not move, it names the first [Named]; it is kept for [Keep].
//
// The tests cite the numbers.
//
// # What is not an act
//
// Dead letters are messages of a stream: a transaction of Postgres cannot move them, so
// package dlq replays and purges them by the filter itself and tells what it has done.
// Reprocessing an upload is one statement of the system's own, whose progress is that of the
// upload.
package acts
