package events

import (
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
)

// Kinds of cursors.
const (
	eventCursor   = 1
	stuckCursor   = 2
	slowestCursor = 3
)

// cursorOf is after which event the next page begins.
func cursorOf(page []store.Event) store.EventCursor {
	last := page[len(page)-1]
	return store.EventCursor{At: last.OccurredAt.UnixNano(), Seq: last.Seq}
}

func encodeCursor(c store.EventCursor) string {
	return reads.EncodeCursor(eventCursor, uint64(c.At), c.Seq)
}

func decodeCursor(text string) (store.EventCursor, bool) {
	at, seq, ok := reads.DecodeCursor(eventCursor, text)
	c := store.EventCursor{At: int64(at), Seq: seq}
	return c, ok && c.At >= 0 && c.Seq > 0
}

func encodeArticleCursor(kind byte, c store.ArticleCursor) string {
	return reads.EncodeCursor(kind, uint64(c.At), c.ID)
}

func decodeArticleCursor(kind byte, text string) (store.ArticleCursor, bool) {
	at, id, ok := reads.DecodeCursor(kind, text)
	c := store.ArticleCursor{At: int64(at), ID: id}
	return c, ok && c.At >= 0
}

// articleCursor reads the cursor of a request; without one, pages begin at
// first.
func articleCursor(text string, kind byte, first store.ArticleCursor) (store.ArticleCursor, *httpapi.Problem) {
	if text == "" {
		return first, nil
	}
	c, ok := decodeArticleCursor(kind, text)
	if !ok {
		return c, reads.Broken("cursor", "cursor", "must be the next_cursor of a page")
	}
	return c, nil
}
