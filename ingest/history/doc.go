// Package history reads what services have recorded in their own databases, and
// turns the rows into events: the tables job_executions of the crawler,
// classification_history of the classifier and publish_history of the publisher.
// It never writes to them.
//
//  1. A row always becomes the same events, with the same identities, whoever
//     reads it and whenever. All bear "backfilled": true.
//  2. An event of a row with a URL has the identity that the service's own
//     event has, when that bore the time of the row: the key is left to be
//     computed. Of rows with one URL, channel and time, the first by id (as
//     text) has it, and the others a key that ends in their id.
//  3. A row of job_executions has counts, and no URLs. Item n of a stage
//     becomes an event at the time when the execution started, for an article
//     of its own: https://backfill.invalid/job_executions/<id>/<n>. The item n
//     that was indexed is the item n that was crawled, so that a funnel of such
//     events narrows as it should. Counts and distinct articles of the stages
//     are then right; journeys from a crawl to a classification are not known.
//
// Columns are found by their names; some may be missing, see [Table].
package history
