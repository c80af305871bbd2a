// Package ingesthttp takes events over HTTP: POST /events takes one as JSON, or
// many as JSON lines; POST /events/batch takes {"events":[…]}, or JSON lines.
//
//  1. What is acknowledged, as accepted or as a duplicate, is on the stream's
//     disk. When that is not known the answer is 503 with Retry-After, and the
//     same request may be sent again: what was stored then counts once. An event
//     is a duplicate where this handler has had it acknowledged lately, or the
//     projector knows it, and accepted else; a duplicate is never answered for an
//     event that nobody has. One whose key another event has is refused.
//  2. Each item of a batch is judged alone: valid ones are taken whatever the
//     others are, and every other is named with field and rule.
//  3. An event goes on the stream as the very text that was sent.
//
// A request holds at most MaxBody bytes, after decompression too, and a batch
// at most MaxEvents events; beyond that nothing of it is taken.
package ingesthttp
