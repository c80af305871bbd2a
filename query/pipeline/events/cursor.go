package events

import (
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
)

var (
	eventCursor = reads.Convert(reads.Pairs("events"), func(c store.EventCursor) reads.Pair {
		return reads.Pair{uint64(c.At), c.Seq}
	}, func(p reads.Pair) (store.EventCursor, bool) {
		c := store.EventCursor{At: int64(p[0]), Seq: p[1]}
		return c, c.At >= 0 && c.Seq > 0
	})
	stuckCursor   = articleCursor("articles, the first to reach a stage first")
	slowestCursor = articleCursor("articles, the slowest first")
)

func articleCursor(list string) reads.Cursor[store.ArticleCursor] {
	return reads.Convert(reads.Pairs(list), func(c store.ArticleCursor) reads.Pair {
		return reads.Pair{uint64(c.At), c.ID}
	}, func(p reads.Pair) (store.ArticleCursor, bool) {
		c := store.ArticleCursor{At: int64(p[0]), ID: p[1]}
		return c, c.At >= 0
	})
}

// cursorOf is after which event the next page begins.
func cursorOf(page []store.Event) store.EventCursor {
	last := page[len(page)-1]
	return store.EventCursor{At: last.OccurredAt.UnixNano(), Seq: last.Seq}
}
