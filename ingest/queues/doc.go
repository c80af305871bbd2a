// Package queues takes the commands of user-defined queues over HTTP: making
// a queue, adding items, taking them, and saying what became of them.
package queues
