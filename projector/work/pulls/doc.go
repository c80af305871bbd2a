// Package pulls is a relay between daemons and the consumers of the stream WORK. It
// takes the pull requests of all roles, and bounds how many of them wait at a
// consumer, so that no client can keep items or room from others.
//
// A daemon sends a pull request to a consumer as usual. The account of its role routes
// the request here, with the id of its connection, which no client can forge. The
// request is passed on through the account RELAY, with a reply subject that a mapping
// routes back to the client. So JetStream delivers directly to the daemon, under the
// usual subjects, and a copy of each delivery comes here. Requests that have to wait do
// so at the consumer Nobody, which never has a message: there, too, JetStream sends the
// client heartbeats, and tells it when the request ends.
//
// What daemons answer goes to the stream WORK_ACK_RELAY. Each process takes some of it and
// publishes it where JetStream takes answers. Answers that different processes take may
// change their order. Those of a process that dies are delivered to another one two seconds
// later. An answer counts when JetStream has it, which may be after the stream has confirmed
// it. Up to 100,000 answers wait in memory; more are refused, and their items are redelivered
// after the lease.
//
// # The promise
//
//  1. Places. A connection has at most 8 requests at the consumer of a queue, and 1 until
//     it has finished an item. Altogether there are at most 1,024, of which 4 are of
//     connections that have finished none. While others wait there, one of these is added
//     only when the last one has gone. Of a connection's 129th request, and sooner while more
//     than 16 connections wait, the answer is "409 Exceeded MaxWaiting".
//  2. Items. A connection may hold 16 items that it has not answered; each that it finishes
//     makes room for another one, up to 5,000, and each of which it says that it is at work
//     for another one, up to 500. Until it has finished one, it is handed them one by one.
//  3. Leases. The lease of an item is that of its queue. It begins when the item is handed
//     out, and anew with each word of the connection about that item, or about one that it
//     was handed before. So a client may ask for several items and work on them one after
//     the other: those that wait are kept. The server is told of it when half of the lease
//     is over, so an item lapses between one lease and one and a half after the last such
//     word. Nothing but its own answers keeps the oldest item of a connection.
//  4. Silence. A connection that lets an item lapse, which is to say nothing within the
//     lease, may hold 1 and waits behind all others until it has finished one. Those that
//     were silent again hold 1 together, and the one that was silent least often goes
//     first: a connection that is back gets its turn soon, and many that are not keep 1
//     item from others. After a lapse others alone may have that for a while. While an item is
//     about to lapse at a connection that has finished none, all such connections get nothing:
//     it goes to one that has finished some, if that waits.
//  5. An end. A request waits for 90 seconds at most, also one that names no end. A request that
//     Nobody has ended, or ends within 20 ms, gets no items from its queue.
//  6. Gone. The requests of a connection end with it. In a cluster, too: a request goes to
//     JetStream by the server that leads its consumer, which alone sees that nobody waits
//     for it any more. When another server leads, clients are told that their requests have
//     ended.
//  7. Millrace's own connections, which HTTP uses, ask consumers directly: there they take
//     turns with the requests of 1.
//
// Limits: shares are counted by connection, in each process that runs a Service. Whoever
// opens many connections has as many shares until they have been silent, and whoever
// finishes items falsely counts as an honest daemon (a worker may answer any item). A
// client that gives up before its request ends, keeps its connection, and stays silent of it,
// may be handed items that come meanwhile, no more than it may hold; they are redelivered
// after the lease. So does one whose server does not tell of connections that have ended: that is
// in the accounts of AccountsConfig. So do all in a cluster where Millrace reaches the server that
// leads a consumer by none of the addresses that it was given, or was told of by servers.
// Requests are withdrawn from a consumer when their connection lets an item lapse, and when a
// Service ends. What JetStream hands to such a request at that moment gets to nobody, and comes
// again after the lease: in a cluster, where a delivery is replicated before it is sent, that
// takes a few milliseconds. While no Service runs, pulls are answered "503", and daemons go
// on with what they have. A Service that begins does not know what was handed out before:
// such an item lapses one lease after its last word, unless the client speaks for it. Answers
// that wait are not counted by connection: a worker that sends more of them than processes
// pass on has those of others refused as long as it does. A client that asks for a reply gets
// one with an error then, which some libraries take for success (DoubleAck of nats.go looks at
// no reply). When an operator has deleted the stream of answers, or its consumer, it is made
// anew within seconds (package work); answers that come meanwhile are lost.
package pulls
