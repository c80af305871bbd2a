// Package uploads keeps the files that people upload and their rows: jobs and rows in Postgres, files in
// the NATS Object Store.
//
// # The promise
//
//  1. Persisted once. A batch of rows commits with the number of rows that were read, on the condition
//     that nobody else has read on. So whoever goes on after a crash begins behind the last row of the
//     last batch, and two processes that work on one job write nothing twice. A row of the processor copy is its own
//     result: it is DONE with the batch.
//  2. Counters are exact. A transaction that changes items of a job changes the job's counters, and the
//     table holds that they add up to what was read.
//  3. Order. It changes the row of the job first, and takes the time of the change from there. So
//     updated_at of a job's items follows the order of commits, and a list by (updated_at, id) misses
//     nothing: an item that changes meanwhile comes again, further behind.
//  4. Owners. What a caller may not see does not exist: every read and change asks for the owner.
//  5. Files are whole. A job begins when its file is on disk, and its bytes are read with their digest.
//  6. Rows follow their items. A row of a job whose processor is a queue becomes an item of it in the
//     transaction that notes so, and the transaction that ends the item ends the row: the row, its
//     result, the job's counters and the item change together or not at all. Only the item that the
//     row has become moves it, and it is not brought back where the row does not wait for it. PENDING rows are in no
//     queue.
//
// The file rests in the Object Store and not in a folder of the data directory: any process of an
// installation may receive a file, work on it or hand it out, and where streams have replicas, it has
// them too. The bucket's name begins with an underscore, so no announcement of a batch can name it.
//
// The tests cite the numbers.
package uploads
