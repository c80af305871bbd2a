// Package live pushes views to readers, over WebSockets and as server-sent
// events.
//
// A reader subscribes to a [View] and receives a snapshot at once, then a new
// whole snapshot whenever the view has changed: the first change at once, then
// at most one per [Config.Interval]. Views are registered with [New]; a new one
// is a value of type View, and nothing else changes.
//
// # What is bounded
//
//  1. A snapshot is computed once for all subscriptions to the same view with
//     the same parameters, by the feed of these. It is encoded once, and
//     compressed once for clients that offer that, whatever the ids of their
//     subscriptions. Where callers may see different things, who may see the snapshot
//     is part of the question ([View.Open]), so no caller shares the feed of another.
//  2. A feed sends its snapshot to one WebSocket after another, as far as that
//     does not have to wait, and then rests for half as long as that took, at
//     least until the Interval is over. A reader without room has a writer that
//     waits for it, and takes the newest snapshot when there is room. So a slow
//     reader delays nobody and skips what it was too slow for. It never has a
//     backlog, and is closed when a write takes too long.
//  3. Connections, subscriptions of a connection, feeds and the size of a
//     message have limits. No caller keeps others out: at the limit of
//     connections or of feeds a newcomer gets the newest of the caller that has
//     most.
//
// # Resuming
//
//  4. Every snapshot has an epoch and a sequence. The epoch is that of a feed:
//     random for each process, and another one for each feed that it makes. So
//     epoch and sequence name one snapshot, and after a restart no old pair
//     means anything.
//  5. A reader that subscribes with the epoch and the sequence of its last
//     snapshot is told that nothing is new if the feed, computed again, still
//     shows the same; else it gets a whole snapshot. There is no other case, so
//     no gap goes unnoticed.
//  6. A feed without readers computes nothing. It is remembered for
//     [Config.Linger], so that readers who reconnect find it.
//  7. A subscription without an epoch counts its own snapshots from 1, without a
//     gap, as older clients expect. Its epoch says how its count lies to the
//     feed's (snapshotID).
package live
