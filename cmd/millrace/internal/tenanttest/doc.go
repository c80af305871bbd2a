// Package tenanttest is the smallest system that has everything: a message, a view on the fold, a queue, a list, a live
// view and a page, without rules of its own. Reviews of pages come over HTTP, are folded into a table, each once, and
// are work that daemons take from the queue reviews.
//
// It shows what a system costs. Its files stand for the folders that a system has: message.go for schemas/reviews,
// ingest.go for ingest/reviews, view.go for projector/reviews, and query.go for query/reviews. queue.go is what every
// process does that moves items, in internal/reviews. The page is query/dashboard/src/shared/ui/ListPage.test.ts.
package tenanttest
