// Package shard holds the rules by which the shards of a file move through
// their stages: what the HTTP commands, the work queues and the table
// pipeline_tracking agree on. It is pure: it reads no clock and no database.
//
// A file of events is cut into shards. Each pair (filename, shard) is an item,
// and an item has a status of its own at every stage:
//
//	new ──start──► started ──complete──► done
//	 ▲ │               │
//	 │ └──────fail─────┴──fail──► failed
//	 │                 │             │
//	 ├──release, again, expire       │
//	 └─────────────retry─────────────┘
//
// A generation goes with each status. It is 1 at first and grows by one with
// every start and with every return to new, so that it names one readiness, or
// one taking, of one item at one stage: whoever says which he means cannot
// change what has come after.
package shard
