// Command work has daemons work on queues, and kills processes at random.
//
// It starts the real program, adds work, and lets daemons of three kinds draw
// from the same queues: Go programs with the client, Node programs with a stock
// NATS client that pull and acknowledge and know nothing else, and pollers over
// HTTP. Now and then a process is killed and started again: the first times a
// daemon with an item in hand, then any daemon, Millrace with all its stores, or
// its Postgres alone (not with -parts=false). The daemons write down when they
// begin an item and when they have ended it.
//
//	go run ./test/work -files 10000 -shards 4 -kill 2s
//	go run ./test/work -items 10000 -kill 2s
//
// With -clients, every other daemon in Go runs this program of another release, and MILLRACE_BIN may name Millrace of
// another one.
//
// The first registers files, whose shards go through all stages. The second makes
// a user-defined queue, and adds items over HTTP, over NATS, and in transactions of
// Postgres, some of which are rolled back. The first attempt at one of ten items
// fails.
//
// When everything is done, the record has to say that every item was done exactly
// once at every stage: every item whose adding was acknowledged, and no other. The
// summary has to equal what was added. By the daemons' own notes no item was with
// two of them at a time, and no end was acknowledged to two of them. One exception:
// while NATS itself is killed, an item of a daemon with a stock client may be handed
// out again.
//
// The exit status is 1 when any of that does not hold, or when something is
// stuck, and 2 for bad usage.
package main
