// Package userqueue is the kind of items that are in user-defined queues: a
// JSON payload, with a key that is unique among the live items of its queue, a
// group, a priority and a time to run. Package queue moves the items; the function
// millrace.enqueue in Postgres adds them, whoever asks: HTTP, the Go client over
// NATS, or a transaction of the caller. [Reports] takes what workers report about items
// that they have, over HTTP and NATS alike.
package userqueue
