// Package clickhouse serves the ClickHouse engine, loaded as a library, behind
// ClickHouse's own protocols, so that stock clients use it unchanged.
//
// One engine exists per process, and a [Server] is its only user. Queries run in
// sessions of the engine: a native connection of the read-write login has one
// for as long as it lives; an HTTP request, and each query of the read-only
// login, has one of its own.
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
//     cancels or goes away ends its query.
//  4. The read-only login reads tables and the schema, and nothing else: its
//     statements are judged on the engine's own syntax tree, what is not known
//     to be harmless is refused, and the engine's readonly stands behind that.
//     Its queries have limits of time, memory and size.
//  5. Input that is not the protocol ends its connection and nothing else.
//  6. [Server.Run] returns after all it began has ended; the engine is last and
//     flushes its data.
//
// Limits:
//
//   - The native protocol is that of revision 54453: clients need at least that
//     one, and send no query parameters. clickhouse-go binds them itself.
//   - External tables, INTO OUTFILE, FROM INFILE and HTTP sessions are refused.
//     So are drivers that send Native blocks over HTTP.
//   - A client's blocks cannot hold Dynamic, Variant, native JSON objects (JSON as
//     text is taken) or AggregateFunction: fill those by INSERT … SELECT.
//   - Analysts' queries have a minute to come and 1 MiB, and over HTTP are not in
//     ClickHouse's own frames (decompress=1).
//   - Analysts cannot call user-defined functions, nor use APPLY, the WINDOW
//     clause (OVER (…) is fine) or SETTINGS in a query.
//   - There are no users in SQL, no replication and no query log.
package clickhouse
