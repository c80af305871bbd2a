// Package handout hands out items to callers that do not use NATS, such as those of
// HTTP. It takes the messages of the items from the stream WORK, as a daemon does.
// So every item is handed out in one way: whoever has taken its message starts it,
// and nobody else.
package handout
