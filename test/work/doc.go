// Command work runs a pipeline of shards and kills its daemons at random.
//
// It starts the real program, registers files, and lets daemons of three kinds
// work on the same queues: Go programs with the client, Node programs with a
// stock NATS client that pull and acknowledge and know nothing else, and
// pollers over HTTP. Now and then one of them is killed and started again, the
// first of them with an item in hand. All write down when they begin an item and
// when they have ended it.
//
//	go run ./test/work -files 10000 -shards 4 -kill 2s
//
// When everything is done, the record has to say that every item was done
// exactly once at every stage, the summary has to equal what was registered,
// and by the daemons' own notes no item was with two of them at a time.
//
// The exit status is 1 when any of that does not hold, or when something is
// stuck, and 2 for bad usage.
package main
