// Package backup saves a running installation as one consistent set, and restores an installation from a set.
//
// # The promise
//
// Everything that was acknowledged before a backup began is in its set. A restored installation goes on exactly:
// each event counts once, also when everything is published again. The tests cite the numbers.
//
//  1. What is derived is at a position that its source has. A fold that is ahead of its stream would take the next
//     messages for folded, and one whose tables are behind its position would leave messages out. So for each fold the
//     set has a position (from, to], tables with every effect up to from and none behind to, and a stream that is
//     whole behind from. That is what a crash leaves as well, and the fold recovers from it in the same way: it folds
//     (from, to] again, and asks what has landed.
//  2. The funnel is taken between two looks at the checkpoint. Its rows are whole states, so what lies behind a
//     position cannot be taken out of them. The checkpoint of a slot group is read, the group's rows are selected, and
//     when the first block has come, by which the server has fixed the parts that it reads, the checkpoint is read
//     again. If no batch was decided in between (invariant 3 of package pipeline), no row is behind to, and the first
//     reading is the group's position in the set. Else it is tried again.
//  3. Other tables come later, and are cut. Rows of events and item_outcomes have the sequence of their message: those
//     behind the position are left out. item_errors has one row for each key and is not cut: storing a row again
//     changes nothing.
//  4. Retired months: the table retired is read first. What it says is summed up was so before, and the summaries come
//     later. Events are removed ten minutes after their month was retired at the earliest. If a month was retired
//     before the view of events is fixed, the tables are read again.
//  5. Postgres and the streams that its transactions govern have one moment. While it is taken, writers of the tables
//     item, batch and message_outbox wait, for milliseconds. Then nobody can remove a message from an outbox, begin a
//     change that adds one, apply an answer of a daemon, or store a batch. Within it the set gets: a snapshot of the
//     database, the position of the fold of batches, WORK_ACKS whole, and the ends of SOURCES and BATCHES_READ. So a
//     message of an outbox is in its table or on its stream, or it is in both and the row says behind which sequence
//     to look for it (package outbox).
//  6. Queues whose messages are removed when the next stream has them are taken before that: BATCHES before
//     BATCHES_READ. A message in both is read twice, which changes nothing.
//  7. EVENTS, and all other streams and buckets, are taken after the tables, so they have what was folded. A server's
//     snapshot has the messages up to the stream's end when it began, but for those that are removed while it is
//     read. Those are behind no position: if a stream was purged beyond one, there is no set.
//  8. The checkpoints of the bucket are replaced by those of 2 and 5 when it is restored.
//  9. A set is complete or refused. Its manifest is written last, with the size and SHA-256 of every file, and one of its
//     own. All of them are compared before a restore writes anything.
//  10. Up to the first position of 2, events do not change any more. They have files of their own, which sets that follow may
//     refer to if the table still has these events: their number, and a sum of what they are known by. Where a month was
//     retired since, or rows were lost, it is not so, and the set takes all. Events between the two positions are in one
//     file that no other set refers to.
//  11. A restore to servers marks each of them before it writes, and unmarks NATS last. What a marked server has, was
//     written by a restore that has not ended, and the next one removes it. No process of Millrace works there meanwhile.
//
// # What is not in a set
//
// Key stores of projectors: they are filled from ClickHouse, and proved by the checkpoint, which says how many
// identities there were, and their sum. A copy of one would be a second truth to compare. Memory-only consumers, and
// notes of what streams had (projector/streams): they are made anew. Secrets: keys of NATS roles, passwords, tokens.
// Spools of clients: they are the clients'. Buckets of S3 that batches are announced in: they are their owner's.
//
// The stream WORK is in a set, and Postgres does not depend on it (package work): messages that Postgres does not know
// are removed, and items without a message get one. Daemons' work since the moment is handed out again.
package backup
