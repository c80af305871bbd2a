// Command faults breaks a running Millrace at random and holds it to its
// promise: each acknowledged event counts once in every view.
//
// It runs the real program as separate processes (NATS with a sync before
// each acknowledgement, ClickHouse, ingest, query, two projectors of one slot
// group), publishes a random history over NATS and HTTP, and remembers what
// was acknowledged, while a plan of faults acts. At the end it waits until
// everything is folded and compares every view with a plain recount: the
// events table and the views on it, the funnel's rows of every width and
// source, the funnel over HTTP, a WebSocket that stayed subscribed
// throughout, and the dead letters.
//
//	go run ./test/faults -seed 7 -for 2m
//
// The history and the plan are functions of the seed and the flags. Timing is
// not: which message is under way when a process dies depends on the machine,
// so that a seed that failed may have to be run a few times to fail again.
//
// The exit status is 1 when anything is lost, doubled or stuck, or when a part
// of the program ended uninvited, and 2 for bad usage.
package main
