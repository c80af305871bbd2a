// Package retention keeps the events table from growing for ever: months that
// are old enough are summed up by day and by month, and their events removed.
//
// A retirement is a month and a range (after, upto] of stream sequences. The
// tests cite these invariants by their numbers.
//
//  1. Durable rows. upto is a position up to which every projector's effects
//     are durable. Rows of the range can't be added any more; what arrives
//     later has a later sequence and is another retirement of the month.
//  2. One plan. The range is decided by compare-and-swap on a NATS key of the
//     month, before anything is summed up, and begins where the month's last
//     one ended. So ranges neither overlap nor leave gaps, whoever carries
//     them out.
//  3. Whole states. A summary row is the whole of its key and retirement.
//     Written again it changes nothing, and of two versions the one that has
//     seen more events stays: a process that was stopped for hours and sums up
//     what has been removed meanwhile replaces nothing.
//  4. Counted, then committed. The summaries hold as many events as the range
//     before one row in the table retired says that they count. That row moves
//     the range from the raw side of every view to the summed one, at once.
//  5. Known for ever. The identities of the range are in the table
//     retired_identities before it counts. From there a key store is filled that
//     is lost or begins anew, so that a repeat, which only a backfill can send
//     of a month so old, is dropped as before.
//  6. Removed last. Events are removed only some time after that, and by their range:
//     what the views no longer count, and nothing that came later. Removing
//     what is removed already does nothing, and what a crash brings back is
//     removed again.
//  7. One clock is not enough. A month is old enough when the clocks of this
//     process, of the broker and of the database all say so.
//
// Every projector may carry this out at any time, also two at once; no lease
// is needed. A step that fails is begun again in the next round.
//
// What is gone with the events: GET /events, the views articles and journeys,
// and exact distinct counts of those months. The funnel keeps all its rows.
package retention
