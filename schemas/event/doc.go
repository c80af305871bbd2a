// Package event defines the pipeline event: its fields, its JSON form, what
// makes it valid, and what makes two of them the same.
//
// # Identity
//
// Two messages are the same event when their idempotency key and the full
// SHA-256 of their URL are the same. The key alone holds 32 bits of the hash,
// and a batch crawled within one second would now and then lose an article to
// it. [Record.MessageID] is the pair as text ("{key}/{url_hash}", the
// Nats-Msg-Id header), [Record.Identity] is 128 bits of its SHA-256.
//
// # Two forms
//
// [Event] is what a program builds and marshals. [Record] is what a message
// decodes to: its fields are slices of the message, so that decoding does not
// allocate. The package has no I/O, imports the standard library alone and is
// safe for concurrent use, but for values of its types, which are not.
//
// testdata/vectors.json holds golden vectors for clients in other languages.
package event
