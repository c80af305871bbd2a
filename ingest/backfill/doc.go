// Package backfill publishes what services recorded before they emitted
// events, from the tables of package history.
//
//  1. A table is read in the order of time, and how far it has come is
//     remembered only after the stream has acknowledged all events up to there.
//     Whatever ends the run, the next goes on from a place that skips nothing;
//     what it publishes again counts once.
//  2. The cursor is kept in the broker, beside the events that it speaks of:
//     who loses the one has lost the other, too.
//  3. Rows from the time on at which a stage's live events begin are left out,
//     for that stage. Where live events and rows overlap nevertheless, by choice
//     of Config.Until, those of one time are the same event; see package
//     history, which also tells why counts are another matter.
//  4. A broker that goes away during a run is waited for, with events as with
//     cursors, until the run is cancelled.
//  5. Its memory is bounded by a page of rows and the chunks under way.
//
// Of events whose key another event has, a run says so, and goes on.
package backfill
