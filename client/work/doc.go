// Package work is for daemons that work items of queues, and for services that add
// items: [Run] takes items and has a handler work them; [Enqueue] adds items over
// NATS, and [EnqueueTx] in a transaction of the caller's own.
package work
