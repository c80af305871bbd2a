// Package batches answers what became of batches of crawled items.
//
// What is said of a batch is read from its row in Postgres, whose numbers add up at every
// instant. What is said of items is read from ClickHouse, where all outcomes of a batch are
// before its row exists. So a batch that is listed has its items, and items may be found
// a moment before their batch is listed.
package batches
