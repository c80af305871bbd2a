// Package live pushes views over WebSockets.
//
// A client subscribes to a view under an id of its choice and receives a
// snapshot at once, then a new whole snapshot whenever the view changed: the
// first change at once, then at most one per [Config.Interval].
//
// # How it is bounded
//
//  1. A snapshot is computed once for all subscriptions to the same view, by
//     the feed of that view; a feed lives as long as it has subscribers.
//  2. A connection has one writer, which takes the newest snapshot of a feed at
//     the moment it can write. A slow reader skips what it was too slow for; it
//     never has a backlog, and is closed when a write takes too long.
//  3. Connections, subscriptions of a connection, feeds and the size of a
//     message have limits.
package live
