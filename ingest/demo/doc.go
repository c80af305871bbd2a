// Package demo replays a sample of real crawl history as events, so that a
// fresh start has something to show. URLs, sources, sightings and categories
// are real; what happens to an article after its crawl is derived by fixed
// rules, squeezed into seconds.
//
//  1. No event is in the future. Those from before the start, made by the
//     warm-up, are within the last 24 hours and marked as backfilled, so that
//     nothing warns of their being late. Later ones are as old as the tick.
//  2. The stages of an article follow one another in time.
//  3. What may or may not have been stored is published again as it was, so an
//     outage neither loses nor doubles events. While it lasts, the replay
//     stands still; it does not catch up.
//  4. Run ends when its context does, and for no other reason. Its memory does
//     not depend on how long it runs.
//
// Demo.History publishes some weeks of events from before the warm-up, marked as backfilled
// likewise. Demo.Crawl registers sources and crawls them, and begins bulk actions.
//
// Demo.Work shows the rest: two versions of a model that judge differently are in
// the warm-up, and the source that is seen most is silent in it for almost two
// hours; files of shards, a queue and dead letters come beside the events. Demo.Batches
// announces batches of crawled items, and crawls those again that failed. Demo.Uploads
// uploads tables of products, and works their rows.
//
// Every event has "demo": true in its metadata and a service_name that starts
// with "demo-".
//
// # Restarts
//
// A replay begins at a place in the sample that the seed chooses, by default
// another one each time. The parameter "demo" of its URLs is its own, so its articles are
// new ones. Its events have new times, so they are new events, never repetitions. A second
// warm-up would thicken the same hours again, so
// the caller asks for one only when the stream of events is empty.
package demo
