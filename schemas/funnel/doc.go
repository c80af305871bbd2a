// Package funnel holds the contracts of the funnel view: time buckets, the
// set of articles that a bucket holds, the deltas by which a projector tells
// readers what it has made durable, and the checkpoint that says how far it is.
//
// # Buckets
//
// An event counts in one bucket of each width: a quarter of an hour, an hour
// and a day, all aligned to UTC. Every time zone in use has an offset of whole
// quarters, so that a day of any zone is a sum of whole buckets. [Cover] finds
// the fewest.
//
// # Sets
//
// A [Set] is exact while it is small and a HyperLogLog sketch of 2^14
// registers beyond: its standard error is 1.04/sqrt(2^14), 0.81 %.
package funnel
