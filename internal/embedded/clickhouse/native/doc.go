// Package native reads and writes the server side of ClickHouse's native TCP
// protocol, at [Revision] or, with clients that are older, down to
// [OldestRevision].
//
// What travels as a block is a block of the Native format behind a BlockInfo,
// from revision 54454 on with a flag between the type of every column and its
// data. So blocks are not encoded anew, in or out; but where each column ends
// has to be found, and for that its type has to be known here.
//
// Nothing a peer sends is trusted: every length has a limit, and memory is
// taken as bytes arrive, never as a length announces them. The exception are
// compressed frames, which [Blocks] unpacks: their few bytes can announce 128 MiB,
// and with zstd far more. So only peers who may write have theirs unpacked;
// [Reader.SkipEmpty] takes what others have to send.
package native
