// Command bench measures Millrace: the program itself, as a user runs it, in
// processes of its own on temporary data, and beside each figure what the
// engines do on the same machine in the same minutes without Millrace.
//
//	go run ./test/bench -events 1000000 -runs 3
//	go run ./test/bench -only backlog -profile cpu.pprof
//	go run ./test/bench -only subscribers -subscribers 10000
//	go run ./test/bench -only subscribers -apart
//	go run ./test/bench -runs 3 -markdown docs/benchmarks.md
//
// A machine's speed drifts by a quarter within minutes, so compare ratios of
// one run rather than figures of two. Every backlog that is folded is compared
// with what was generated, and so is what was posted over HTTP: a fast wrong
// answer is an error and no figure.
//
// The section subscribers has many WebSockets watch mixed views while 10,000
// events/s flow. They are one process on the same cores as the program, and say
// how old each change was when each of them received it. With -apart they are
// served by "millrace serve --role=query" beside the program, whose memory by itself
// is the server's then, and the program counts among the engines.
//
// The section batches reads stored objects of 50 items. Announcements wait until the format is
// switched on, so that the time is that of reading and storing. The loop beside it reads the
// same files into a table of the same ClickHouse, and promises nothing. Then all items of some
// batches (-storm) are RATE_LIMITED, while the sums in Postgres are compared once a second with
// the items that are errors. An item is asked for by its id among -stored others, written
// straight into the tables, in turns with a read from Postgres by primary key. Last, batches of
// one bucket are timed while another bucket answers slowly, and before and after.
//
//	go run ./test/bench -only batches -items 500000 -storm 200000 -stored 1000000
//
// The section uploads sends -rows rows of 600 bytes. What persists them, and the processor copy, are
// compared with COPY of the same file into a plain table; a queue whose workers do nothing, with the
// same items in a queue by themselves; pages, while rows rest and while they move, with reads of as many
// rows by primary key; exports, by a process of the role query whose memory is watched, with what writes
// the same format without Millrace; and another user's 100 rows beside all of these, with as many alone.
//
//	go run ./test/bench -only uploads -rows 1000000
//
// The section cluster emits events into three NATS servers that hold each stream in three
// copies, and into one that holds it once, while the program folds them. Each server syncs each
// write to disk, and is a process on the same cores: three machines have three disks.
//
// The program to measure is MILLRACE_BIN, by default bin/millrace. Processor
// time and memory are read from /proc, so it needs Linux.
package main
