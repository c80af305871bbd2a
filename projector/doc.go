// Package projector folds streams into views, each event exactly once.
//
// The 256 slots of the stream are divided among slot groups (package
// schemas/slots). Each group has a checkpoint, key store and funnel rows of its
// own, and one projector at a time that folds it (the term); projectors share
// the groups (crew). What follows holds for each group by itself. Package
// members, by which projectors know of each other, is there for balance alone.
//
// The number of groups can be changed (package layout, regroup.go): the present
// ones end at one sequence, and others, with new ids, begin behind it. The
// invariants of that are those of package schemas/slots; they rest on 2 to 7:
// what is closed decides no batch (3), what is decided is completed (4, 5), and
// an ended group has every effect (7), so that the key stores filled after it
// know every identity (2) and no row of it changes any more (6).
//
// # The promise
//
// Each identity (package schemas/event) counts once in every view, whatever is
// retried, redelivered, replayed or killed. It rests on these invariants; the
// tests cite their numbers.
//
//  1. One order. A group's messages are folded in the order of their stream
//     sequence, each sequence once a term, without gaps: the source checks the
//     consumer's own sequence and asks again from the last message it has when
//     one is missing.
//  2. First sighting. The key store maps an identity to the sequence of its
//     first sighting. A message counts if its identity is unknown or known by
//     this very sequence; so folding a message again decides the same.
//  3. Decided cuts. Before any effect of a batch reaches a database, its
//     bounds (from, to] are written to the checkpoint by compare-and-swap.
//     Whoever folds next, folds these same bounds first. A projector that has
//     been replaced fails the swap, and writes no more.
//  4. Named inserts. Rows of a batch go to the events table in one insert
//     whose deduplication token is made of the decided bounds. Repeated, late
//     and zombie inserts of the batch carry the same token and change nothing.
//  5. Asking, not guessing. Before an insert is tried again, the projector asks
//     which sequences have landed, and sends the others, since a server that
//     loses its power forgets tokens. After it, the projector asks again, and
//     inserts what is still missing under a token of its own.
//  6. Whole states. A row of the funnel is the whole state up to the sequence
//     it carries. A batch changes a row only if the row's sequence lies before
//     the batch's end.
//  7. Durable, then acknowledged. The next checkpoint, which is the
//     acknowledgement, and the announcement to readers come after every effect
//     of the batch: rows, funnel rows, keys synced to disk, dead letters. The
//     consumer itself acknowledges nothing: one that goes on after a restart
//     would take its first acknowledgement for everything before it.
//  8. Nothing in silence. A message that breaks a rule is in the DLQ stream,
//     once, before it counts as done.
//  9. Bounded memory. A projector holds at most the batch being folded, the
//     one being written, what the source has read ahead, and caches of fixed
//     size.
//
// A projector whose batch takes longer than its lease says that it is alive, so
// that no other one begins it again; not while ClickHouse fails, for another one
// may reach it.
//
// While the disk of its key store is full a projector waits, and keeps silent,
// so that one with room takes over; a key store found damaged, when it is
// opened or read, is put aside and filled again (2). Of those put aside the
// last one is kept for a week.
//
// All this rests on NATS keeping what it has acknowledged. One that has lost its
// end gives sequences a second time, which rows, keys and decided batches are
// known by. So a term begins by comparing NATS with the views, and the source
// compares the stream with what it has read, and the projector ends where NATS is
// behind, before it folds any of that.
//
// Limits: the events table remembers its last 10,000 tokens (schemas/clickhouse),
// of all groups, one for each month that an insert has events of. So with one
// group and events of one month a projector would have to sleep through 10,000
// batches of its successor, with an insert already under way, to double rows;
// with G groups, or batches that touch M months, through 10,000 / (G × M).
// The stream has no age limit: package aging removes what is old once it is
// folded, so that what a projector has yet to fold waits for it, for as long as
// there is room.
package projector
