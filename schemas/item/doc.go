// Package item holds the rules by which an item moves through a queue. HTTP,
// the Go client, plain NATS daemons and the sweeper all follow them. The
// package is pure: it reads no clock and no database.
//
//	new ──start──► started ──complete──► done
//	 ▲ │               │
//	 │ └──────fail─────┴──fail──► failed
//	 │                 │             │
//	 ├──release, again, expire       │
//	 └─────────────retry─────────────┘
//
// Each item has a generation. It is 1 at first and grows by one with every start
// and with every return to new. So it names one readiness, or one taking, of the
// item: a caller who names a generation cannot change what came after it.
//
// One thing counts late. A worker whose lease has ended, and which completes the item
// after that, has done the work: if nobody has begun the item since, it is done, also
// when the end of the lease had it fail.
package item
