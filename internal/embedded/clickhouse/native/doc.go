// Package native reads and writes the server side of ClickHouse's native TCP
// protocol at one revision, [Revision].
//
// That revision is the last before the flag for custom serialization in front
// of every column: from it on, what travels as a block is exactly a block of
// the Native format behind a BlockInfo, and neither blocks in nor blocks out
// need to be encoded anew.
//
// Nothing a peer sends is trusted: every length has a limit, and memory is
// taken as bytes arrive, never as a length announces them. The exception are
// compressed frames, which [Blocks] unpacks: their few bytes can announce 128 MiB,
// and with zstd far more. So only peers who may write have theirs unpacked;
// [Reader.SkipEmpty] takes what others have to send.
package native
