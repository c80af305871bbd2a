// Package mirror holds the live part of the funnel view in memory: what
// happened from some moment of the last month until now, for all sources
// together and for those single sources that are being looked at. It loads
// from ClickHouse once and then follows the deltas that projectors announce
// over NATS.
//
// # Without the database
//
// What is held goes on while ClickHouse hangs or is away. A window that begins within
// a quarter whose single events cannot be read begins with the quarter instead. One
// that needs a sketch is answered from a sketch of a somewhat earlier begin, if one is
// held. Both say so (Answer.Widened). Only a source that nobody has asked for lately,
// and a window beyond the bounds, need the database.
//
// # What is held
//
// Each source has a series: the number of events by stage and quarter of an
// hour, and for each article the last quarter in which it reached a stage. A
// live window is open on the right, so both answer a window from any quarter on:
// its events are a sum of quarters, and its distinct articles are those last
// seen in one of them. Both are exact, in every time zone.
//
// The articles of a series are bounded: beyond the bound the oldest quarters
// are forgotten, and windows that begin earlier take their distinct articles
// from a sketch, merged from the rows of the funnel table when first asked for
// and kept current from then on. All single sources share another such bound,
// and beyond it the largest of them loses its oldest quarters.
//
// A window that begins within a quarter also needs the single events of that
// partial quarter. They are read once, and again when a delta brings a late one.
//
// # Invariants
//
//  1. Subscribe, then load: a delta is announced after ClickHouse has
//     confirmed its batch, so what a load does not see arrives as a delta.
//  2. Every count row of a load carries the stream sequence it is folded up to;
//     a delta that ends at or before it is part of it already and is not
//     counted again. Sets of articles need no such watermark: adding an article
//     twice changes nothing.
//  3. The deltas of a slot group are contiguous, from the checkpoint on that a load
//     began with. One that does not begin where the one before ended, or a checkpoint that stays ahead of what was
//     applied for more than a second, means that a message was lost: everything
//     is loaded again, and the old state answers until then. A group that comes
//     with another layout (package schemas/slots) begins where its epoch does,
//     and what is first heard of it has to begin there, too. Layouts and deltas
//     come in no order between them: where a group was heard of before its
//     layout, what has been loaded may lack its articles, and is loaded again.
//  4. What a reader gets is of one moment: window, counts and position are one value
//     (Answer), which is read under one lock, from what has taken all deltas until
//     then. What has not, because it was evicted or because events of its quarter
//     came late, is loaded again, a few times before ErrBusy.
//  5. What is held is chosen by the clock, which may be wrong and be set. A state
//     knows from which quarter on, and up to which, it counts everything: it notes
//     what it leaves out (state.covers). A window that does not lie within that, on
//     either side, is not answered. It is made anew once everything is loaded by the
//     new time: another count of the events would lack, or have, those of a batch
//     under way that this one has, or lacks.
//  6. What a reader gets is durable. A load may read some rows of a batch that
//     is under way; it waits for the delta that completes the batch, or begins
//     again when a checkpoint says that it is complete, and reads single events
//     up to what is counted. So the mirror of a service that starts again shows
//     no less than the one before. While nothing is loaded yet, Landed holds
//     answers from the tables to the same, and gives none before the checkpoints
//     have been read: groups without rows are behind all others. Estimates of
//     distinct articles alone may be ahead: what they are merged from carries no
//     sequence.
package mirror
