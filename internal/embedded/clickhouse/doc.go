// Package clickhouse serves the ClickHouse engine, loaded as a library, behind
// ClickHouse's own protocols, so that stock clients use it unchanged.
//
// One engine exists per process, and a [Server] is its only user. Queries run in
// sessions of the engine: a native connection of the read-write login has one
// for as long as it lives; an HTTP request without a session_id, and each query
// of the read-only login, has one of its own.
//
// Guarantees:
//
//  1. An insert is answered when its rows are written. The rows of one client
//     insert, in however many blocks they were sent, form one block of the
//     engine up to 1,048,449 rows and 256 MB, and are all there or not at all
//     within a partition; async_insert is always off.
//  2. insert_deduplication_token works as on a server: an insert repeated with
//     its token into a table with non_replicated_deduplication_window changes
//     neither the table nor the views that depend on it, after a restart or a
//     kill of the process as well.
//  3. Results are streamed: memory does not grow with their size. A client that
//     cancels or goes away ends its query, inserts included.
//  4. The read-only login reads tables and the schema, and nothing else: package
//     judge allows what is on its lists and refuses the rest, and the engine's
//     readonly stands behind that. Its queries have limits of time, memory and
//     size.
//  5. Input that is not the protocol ends its connection and nothing else. Who is
//     disconnected or refused by the server is told why: by an exception over the
//     native protocol, by a status and a text over HTTP.
//  6. [Server.Run] returns after all it began has ended; the engine is last and
//     flushes its data.
//  7. Every statement has a limit of time and of memory. One that the engine does
//     not end within Config.Patience after it was told to ends the server with
//     [ErrStuck]: the process has to end then and to be started again, which
//     loses statements under way and nothing else. Analysts who have that happen
//     are refused for a growing while. docs/statement-limits.md has the figures.
//
// Limits:
//
//   - The native protocol is spoken from revision 54453 to 54459. Roles and logins by
//     token are refused, and so are connections of other servers without a [Cluster].
//   - A server of a cluster takes queries without the values that servers send beside
//     them, so that _shard_num is 0, and answers other servers in blocks of the engine.
//   - INTO OUTFILE and FROM INFILE are refused. Analysts' queries have no external
//     tables.
//   - A client's blocks cannot hold AggregateFunction: fill it by INSERT … SELECT.
//     In blocks of the native protocol, a result has such a column only as its last
//     one; over HTTP in Native with a revision it has none.
//   - Over the native protocol, a result with totals or extremes is written to a
//     spool as text, and is sent once it is whole.
//   - The database default, where the engine's sessions begin, cannot be dropped.
//   - The ids of queries and the names of logins are this package's: views do not
//     know them, nor does system.processes.
//   - Analysts' queries have a minute to come and 1 MiB, and over HTTP come as they
//     are or by gzip or deflate.
//   - Analysts cannot call user-defined functions, nor use SETTINGS in a query.
//     docs/analysts.md says what else they can and cannot do.
//   - There are no users in SQL and no replication.
//   - system.query_log is this package's: it has the columns that are known here, is
//     in memory, and keeps the newest 50,000 rows or 16 MiB. Analysts cannot read it.
package clickhouse
