// Package handout hands out items to callers that are no NATS daemons, such as
// those of HTTP. It takes their messages off the stream WORK, as a daemon does,
// so that there is one way out for every item: whoever has taken the message
// starts the item, and nobody else.
package handout
