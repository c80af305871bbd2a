// Package queues takes the commands of queues of people's own over HTTP: making
// a queue, adding items, taking them, and saying what became of them.
package queues
