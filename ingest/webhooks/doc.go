// Package webhooks sends items of user-defined queues to addresses, as signed HTTP requests, and turns the answers into
// reports of a worker. The queue does all else: leases, attempts, waits and the end of an item are those of any worker.
// [Handler] sets webhooks over HTTP, and [Runner] sends the items.
//
// # The promise
//
//  1. One end. An answer is a report like any other, with the generation of the taking. A process that dies leaves the
//     item to another one when its lease ends: the request is sent again, with the same id, and the item ends once.
//  2. Signed. A request has the headers of Standard Webhooks: an id that stays the same for all attempts of an item, the
//     time, and an HMAC-SHA256 of both and the body. Nobody without the secret can make one.
//  3. Public addresses only. The address is checked when it is dialed, behind all names: names that resolve to another
//     address meanwhile, mapped and translated addresses included. There is no proxy, and no redirect is followed.
//     Networks that are allowed are named in the configuration.
//  4. Bounded. The time, the size of the answer and of its headers, requests at a time of a queue and of a process.
//  5. Considerate. Whoever answers 429 or 5xx, or not at all, gets fewer requests at a time, and then longer pauses
//     between them, by host. A host that says Retry-After gets none until then: from this process at once, from others
//     within a second.
//
// The tests cite the numbers.
package webhooks
