// Package reclassify recomputes what Millrace derives from batches of crawled items and stores
// with them: the project of a job, and the category of an error code. The stored values may be
// those of a wrong rule, or of an older release.
//
//  1. Only projects and categories change, in Postgres (batch, batch_error) and in ClickHouse
//     (item_outcomes, item_errors). No outcome, number, state, version or history does. What is
//     tried again goes on as it was, and items that are in a queue keep their payloads.
//  2. It may be interrupted and repeated, also while batches are stored: each statement changes
//     what differs from the present rules, and nothing else.
//  3. Rows are locked in the order of package recrawl: errors by their ids before batches by their
//     keys, and not both in one transaction.
//
// The tests cite the numbers.
package reclassify
