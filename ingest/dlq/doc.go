// Package dlq works with the dead letters that the DLQ stream holds: it lists
// them, shows one, lets it in again, or deletes it.
//
//  1. A letter is deleted by a replay only after the server has said that its
//     message is on disk again.
//  2. A replay that is repeated, because it was cut short or because two ran
//     at once, stores a message again only when the dedup window has passed in
//     between. An event counts once even then: the projector knows its
//     identity.
//  3. What would only come back as another letter stays where it is, and is
//     reported with the rule that it breaks.
//  4. Memory and work of a call are bounded, however many letters there are. A
//     call that stops at a bound says where the next one goes on.
//  5. A selection ends at the last letter that was there when it began, so a
//     message that becomes a letter again is not replayed for ever.
//
// # The id of a replayed message
//
// It is replay/<stream>/<sequence>, of the message as it first came, and not
// the event's own message id: for as long as the dedup window lasts, the
// stream knows that one from the message that became the letter. It would
// answer "duplicate", and the deletion that follows would lose the event.
//
// # Reading
//
// Letters are read with batches of direct gets, which leave nothing behind on
// the server. A consumer for each request would be a change to the state that
// a cluster agrees on.
package dlq
