// Package dlq lists, shows, replays and deletes the dead letters in the stream DLQ.
//
//  1. A letter is deleted by a replay only after the server has said that its
//     message is on disk again.
//
//  2. A replay that is repeated, because it was cut short or because two ran
//     at once, may store an event again. It counts once even then: the projector
//     knows its identity. A message that is no event has the message id that its
//     letter names, by which its stream knows it for as long as its window of ids
//     lasts. The id is random and nobody but operators can read it, so that no
//     message of somebody else can make the replay a duplicate. Letters of releases
//     that gave none may store their message twice when a replay is cut short.
//
//  3. What would only come back as another letter stays where it is, and is
//     reported with the rule that it breaks.
//
//  4. Memory and work of a call are bounded, however many letters there are. A
//     call that stops at a bound says where the next one goes on.
//
//  5. A selection ends at the last letter that was there when it began, so a
//     message that becomes a letter again is not replayed for ever.
//
//  6. An event whose key is that of an event of another stage or service
//     (key_conflict) is replayed with a key of its own, which is made of its
//     service, its stage and the key that it had: it counts, once however often
//     it is replayed.
//
// # Reading
//
// Letters are read with batches of direct gets, which leave nothing behind on
// the server. A consumer for each request would be a change to the state that
// a cluster agrees on.
package dlq
