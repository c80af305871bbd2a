// Package batches stores what was read of batches of crawled items, and the outcomes of items
// that were tried again (package recrawl): a view of the stream BATCHES_READ on the fold.
//
//  1. The outcomes of a batch are in ClickHouse before its row is in Postgres, which is what
//     people ask first: a batch shows all of its outcomes or none. They are inserted as one
//     block into one partition.
//  2. The first content of a batch counts, by the order of the stream. The same content again
//     changes nothing, and other content is noted as the conflict of the batch.
//  3. The bounds of what is stored at once are decided in the checkpoint beforehand. Whoever
//     stores it again finds its own rows by their sequences: an insert has a deduplication
//     token of these bounds, rows that have landed are asked for, and a row in Postgres that
//     has the sequence of its batch is the batch's own.
//  4. One process stores at a time. One that was replaced decides nothing more, and what it
//     had decided is what its successor stores first.
//  5. A message that is not what was read of a batch is a dead letter.
//  6. An outcome of a retry is in Postgres before it is in ClickHouse. It is stored once by
//     batch, position and version, though the stream may have it twice.
//  7. The errors of a batch have rows in Postgres, in the transaction that makes its own. Those
//     that are tried again count as retrying.
package batches
