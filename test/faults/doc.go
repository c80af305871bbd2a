// Command faults breaks a running Millrace at random and holds it to its
// promise: each acknowledged event counts once in every view.
//
// It runs the real program as separate processes (NATS with a sync before
// each acknowledgement, ClickHouse, Postgres, ingest, query, two projectors
// that share one slot group or four), publishes a random history over NATS and
// HTTP, and remembers what was acknowledged, while a plan of faults acts. At
// the end it waits until everything is folded and compares every view with a
// plain recount: each column of the events table and of the views on it, the
// funnel's rows of every width and source with their sets and sketches, the
// funnel, statistics, drift, all pages of events and two journeys over HTTP,
// each snapshot of a WebSocket that stayed subscribed throughout, and the dead
// letters.
//
// The stream keeps events for twenty seconds when they are folded, so that they
// are removed all the time. What it has held is known from a copy that is made
// while they are there, and at the end what is left has to be what was copied.
//
// Each projector reaches NATS and ClickHouse over wires of its own, so that the
// one that folds can lose one of them while the others go on.
//
// When the plan is over each of the two projectors has to fold what is published
// by itself, and every role has to say that all it uses is up.
//
// Beside the events it registers files, over HTTP and on the stream SHARDS, and
// has daemons of three kinds work their shards through the stages: pollers over
// HTTP, the Go client, and a stock consumer that acknowledges. At a whim they
// vanish with what they have, answer late, twice or with a failure. At the end
// they finish what is there, and the record in Postgres is held to what was
// acknowledged, to the rules of its history, and to the summary.
//
// A third workload are jobs. People make sources over HTTP, change, disable and delete
// them, and pause their jobs, force their runs and change their schedules, while two
// schedulers have the jobs run, and a crew of the same kinds of daemons works the runs.
// At the end all jobs are paused. What Postgres has is held to a plain recount: each due
// time of each schedule that a job had has one row in the ledger, what ran has one run,
// no job has more runs at one time than it may, what was acknowledged to a worker is so,
// the events about sources lead to the sources that there are, and jobs to their
// sources. The product's own audit has to find nothing either.
//
// A fourth workload are batches of crawled items. They are announced in all formats while these
// are switched on and off, and their objects are read from a server of S3 in this program,
// which obeys faults: it is slow, cuts answers, sends other bytes or wrong checksums, and has
// objects overwritten. Announcements of damaged objects are replayed, and workers try errors
// again. At every look the sums of each batch add up. At the end each item of each batch that
// was acknowledged has one outcome, of the content that counts, and one more for its retry. Each success is analysed by an
// analyser in this program, which is slow, silent, wrong and gone by a fault: it has one row, about that outcome, or with the
// reason why there is no analysis.
//
// A fifth workload are uploads. Files are sent to the ingest processes as forms and by tus, whose connections break, and
// come into a watched folder, where some are renamed, copied or overwritten. Workers of a queue make results of their
// rows: some rows fail at first, are not found, skipped or refused, and some workers vanish. Another queue has a webhook,
// whose receiver is in this program: it checks signatures, and by a plan it is slow, hangs, throttles, fails and dies.
// At every look the counters of each upload are those of its rows in the same snapshot, no row is PROCESSING whose item
// has ended, and the number of processed items has not fallen. One upload is exported again and again, and each file is
// held to its rows. At the end each row of each upload that was acknowledged has the one status and result that was
// planned, and each content of the folder is one upload. With -upload-rows there is a large one beside them.
//
//	go run ./test/faults -seed 7 -for 2m
//	go run ./test/faults -seed 7 -for 2m -nodes 3     three NATS servers, streams in three copies
//	go run ./test/faults -seed 7 -for 2m -overlap     faults overlap from the first one on
//	go run ./test/faults -seed 7 -for 5m -upload-rows 200000 -faults kill-ingest,kill-postgres
//	go run ./test/faults -soak -for 2h                no faults: what grows?
//	go run ./test/faults -seed 7 -for 2m -peer plain  breaks what is used in place of projectors
//	go run ./test/faults -seed 7 -from millrace-1.0   begins with that program, and upgrades it
//	go run ./test/faults -work 10000 -for 2m          workers that are killed
//	go run ./test/faults -catalogue                   prints all kinds of faults (docs/faults.md)
//	go run ./test/faults -record DIR                  records the metrics of outages for the tests of alerts
//
// The history and the plan are functions of the seed and the flags. Timing is
// not: which message is under way when a process dies depends on the machine,
// so that a seed that failed may have to be run a few times to fail again.
//
// # Workers
//
// With -work N, events are published but not compared, and nothing else is done but this. Workers are processes of their
// own: Go programs with the client, Node programs with a stock NATS client that pull and acknowledge and know nothing else
// (test/node/daemon.mjs), and pollers over HTTP. They work on the shards of files, and on N items of a user-defined queue
// that are added over HTTP, over NATS, and in transactions of Postgres, each after one that is rolled back. The first
// attempt at one of ten of these fails. Workers are killed all the time: at first three with an item in hand, then any. So
// are NATS, ingest, Postgres and everything at once, unless -faults names other kinds, or none. Workers write down when they
// begin an item and when they have ended it. With -clients, every other one in Go and over HTTP runs this program of another
// release, or test/work where a release has that. MILLRACE_BIN may name Millrace of another release, and -parts this program
// of it, which runs its NATS and Postgres.
//
// When everything is done, the record has to say that every item was done exactly once at every stage: every item whose
// adding was acknowledged, and no other. The summary, and the figures of the queue, have to equal what was added. By the
// workers' own notes no item was with two of them at a time, and no end was acknowledged to two of them. One exception:
// while NATS itself is away, an item of a worker with a stock client may be handed out again. After the
// last fault, more items are added. They have to be done before the lease of any can end: an item that is lost on its way
// to a worker comes back when its lease ends.
//
// # Peers
//
// With -peer, two processes of something else consume the same stream into a
// table of their own in the same ClickHouse, over the same wires, under the
// same plan but for the kinds that break what a peer has not. It is measured
// what a reader of its table finds lost and doubled, and how far a rollup by
// materialized view is off; nothing of it makes the exit status 1. A peer gets
// what is good for it: the broker remembers ids for an hour, longer than any
// run, acknowledgements have the broker's default of 30 s to come, and a
// message that breaks a rule is not held against it.
//
// # Power
//
// Who stores something has a disk of its own: an ext4 file system on a device
// in memory. An unplug fault stops the processes, has ext4 forget everything
// that it was not told to sync (EXT4_IOC_SHUTDOWN without a flush of the log,
// by which its own journal is tested), kills them, and starts them on what its
// journal brings back. A disk that says it has written what it has not is
// beyond this.
//
// # Clocks
//
// The clock of each process jumps by itself, from a second to months, forth and
// back, while it runs, and may stay wrong while other faults act; that of the
// machine is not touched. A process asks what time it is by calling code that
// the kernel has mapped into its memory. It is started under this one's eye,
// and has its copy changed before its first instruction, so that seconds are
// added that this program writes there (clock_linux_amd64.go). That moves Go's
// time.Now and what ClickHouse's libraries ask for. As when a machine's clock is
// set, the clock that measures durations goes on. Where this can't be done,
// these kinds are left out. Postgres is a child of a child, and forks: its
// processes are found while they run, within a tenth of a second, and each has
// the first instructions of that code changed (heirs_linux_amd64.go).
//
// What is held to which clock: an event to that of the stream that received it,
// as it was then, right or wrong, so that folding again decides the same; so the
// recount asks each message when it was received, and what is too old or too
// early by that is a dead letter. Ingest refuses by its own clock beforehand,
// and while that is wrong any refusal for a time is taken as it is. Windows end
// by the clock of the process that answers: the WebSocket's counts are looked at
// only while that is right, and everything is compared when all clocks are right
// again. Due times of jobs are by Postgres's clock, which jumps by ten hours at most:
// what it passes over is decided, and what it comes to again is not decided again. The
// order of runs is that of the rows of their items' history, which no clock decides.
// The broker forgets message ids by its clock, which changes what it
// drops, but not what is counted. Leases, patience and waits are measured by the
// clock that does not jump.
//
// # Outages
//
// With -record, nothing is checked. An installation with a light load has one outage after
// the other (outages.go): kinds of faults that stay, and others that stop a view or a queue.
// All processes are scraped every five seconds, before, during and after it, and the series
// that the alert rules read are written down. TestAlertsOnOutages gives them to promtool.
//
// The exit status is 1 when anything is lost, doubled or stuck, or when a part
// of the program ended uninvited, and 2 for bad usage.
package main
