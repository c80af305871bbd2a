// Package pipeline folds streams into views, each event exactly once.
//
// The 256 slots of the stream are divided among slot groups (package
// schemas/slots). Each group has its own checkpoint, key store and funnel rows,
// and is folded by one projector at a time, for as long as that has the group's
// lease: a session. Projectors share the groups (package assignment), and know of
// each other for balance alone. What follows holds for each
// group by itself.
//
// This package is a view and a sink of package fold, which reads the stream, cuts
// batches and recovers.
//
// The number of groups can be changed (assignment.Regroup): the present groups end at
// one sequence, and others, with new ids, begin behind it. Package schemas/slots
// has the invariants of that. They rest on 2 to 7: a closed group decides no batch
// (3), a decided batch is completed (4, 5), and an ended group has every effect
// (7). So the key stores that are filled afterwards know every identity (2), and
// no row of an ended group changes (6).
//
// # The promise
//
// Each identity (package schemas/event) counts once in every view, whatever is
// retried, redelivered, replayed or killed. It rests on these invariants; the
// tests cite their numbers.
//
//  1. One order. A group's messages are folded in the order of their stream
//     sequence, each sequence once in a session, without gaps: the source checks
//     the consumer's own sequence. When a message is missing, it reads again from
//     the last one it has.
//
//  2. First sighting. The key store maps an identity to the sequence of its
//     first sighting, and to its fingerprint. A message counts if its identity is
//     unknown, or known by this same sequence; so folding a message again decides
//     the same. A message that does not count is a repeat, or a conflict if its
//     fingerprint differs.
//
//  3. Decided cuts. Before any effect of a batch reaches a database, its
//     bounds (from, to] are written to the checkpoint by compare-and-swap.
//     Whoever folds next folds these same bounds first. A projector that has
//     been replaced fails the swap, and decides no more.
//
//  4. Named inserts. Rows of a batch go to the events table in one insert
//     whose deduplication token is made of the decided bounds. Inserts of the
//     batch that are repeated, late, or of a replaced projector carry the same
//     token and change nothing.
//
//  5. Asking, not guessing. Before an insert is tried again, the projector asks
//     which sequences have landed, and sends the others, since a server that
//     loses power forgets tokens. After such an insert the projector asks again,
//     and inserts what is still missing under a token of its own.
//
//  6. Whole states. A row of the funnel, with that of recent counts beside it
//     (package funnel), is the whole state up to the larger of the sequences that
//     they carry. A batch changes them only if that lies before the batch's end.
//
//  7. Durable, then acknowledged. The next checkpoint, which is the
//     acknowledgement, and the announcement to readers come after every effect
//     of the batch: rows, funnel rows, keys synced to disk, dead letters. The
//     consumer acknowledges nothing: after a restart its first acknowledgement
//     would count for everything before it.
//
//  8. Nothing in silence. A message that breaks a rule is in the DLQ stream,
//     once, before it counts as done. An event with the identity of another event
//     breaks a rule, too (key_conflict).
//
//  9. Bounded memory. A projector holds at most the batch being folded, the
//     batch being written, what the source has read ahead, and caches of fixed
//     size.
//
//  10. Proven keys. The checkpoint says how many identities were counted up to
//     its position, and their sum. A key store has to show the same before
//     anything is folded with it (package keystore); else it goes to quarantine,
//     and a new one is filled. While ClickHouse lacks rows that were counted,
//     nothing is folded: repeats of these events would count again, in funnel
//     rows that have them already.
//
//  11. Named baselines. While a group is folded, what it has counted is compared with
//     what ClickHouse has, from time to time. Where that has changed, because ClickHouse
//     was put back from a copy, say, or because what was missing is there again, the
//     session ends and another one begins with the rows that there are; and so it does
//     when an operator accepts them. The checkpoint names the baseline anew. A reader that
//     has loaded the rows before takes no delta of the new baseline, and loads again.
//
// Beside the fold a projector answers publishers who ask which events are known
// (stream.KnownQuestion), from the key stores of its groups. It does not answer
// for a group whose key store is being filled, or whose disk is full.
//
// A projector whose batch takes longer than its lease renews the lease meanwhile,
// so that no other projector begins the batch again. It does not while ClickHouse
// fails, since another projector may reach ClickHouse, nor while the disk of its
// key store is full, since another may have room.
//
// A key store that is found damaged, when it is opened or read, goes to quarantine,
// and a new one is filled (2, 10). The newest in quarantine is kept for a week.
//
// All this rests on NATS keeping what it has acknowledged. A stream that has lost
// its end gives sequences a second time, by which rows, keys and decided batches
// are known. So a session begins by comparing the stream with the views, and the
// source compares it with what was read. The projector stops when the stream is
// behind, before it folds anything of it.
//
// Limits: the events table remembers its last 10,000 tokens (schemas/clickhouse),
// of all groups, one for each month that an insert has events of. With one group
// and events of one month, a replaced projector doubles rows only if an insert
// that it has under way is delayed for 10,000 batches of its successor; with G
// groups, or batches that touch M months, for 10,000 / (G × M).
// The stream has no age limit: retention.Aging removes old messages once they are
// folded. So what is not folded waits, for as long as there is room.
package pipeline
