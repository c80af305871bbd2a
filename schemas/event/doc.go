// Package event defines the pipeline event: its fields, its JSON form, what
// makes it valid, and what makes two of them the same.
//
// # Identity
//
// Two messages are the same event when their idempotency key, the full SHA-256
// of their URL, their stage and their service are the same. The key alone holds
// 32 bits of the hash, and a batch crawled within one second would now and then
// lose an article to it. [Record.MessageID] is key and hash as text
// ("{key}/{url_hash}"), [Record.Identity] is 128 bits of its SHA-256, and
// [Record.Fingerprint] stands for stage and service. Events with one identity
// and two fingerprints are a conflict: the second is refused with the code
// [KeyConflict], and [GiveOwnKey] makes an event of its own of it.
//
// Two channels of one article in one second are two events. So a key that is
// computed names the channel where metadata.channel does, with "@" behind it and
// its ":" and "%" written as %3A and %25: no two pairs of a model's version and a
// channel have the same key, nor has a channel the key of a model's version. A
// publisher's own key that is to the letter what the specification computes,
// which knows of no channels, counts as computed, so that it does not matter who
// has computed it.
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
