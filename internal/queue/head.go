package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Head is what a queue would hand out next.
type Head struct {
	Paused      bool    // it hands out nothing
	Ready       bool    // there is an item
	Passing     []Entry // items that nobody has announced, and that go before others that are ready
	Unpublished int     // items among the first that are about to be announced, but for Passing
	// Awaited tells that items which go before others have to be announced first, because
	// the queue has limits: what goes out is counted then.
	Awaited bool
}

// Head looks at the first items of a queue.
func (s *Store) Head(ctx context.Context, q ID, limit int) (h Head, err error) {
	var settings settings
	var e Entry
	var unpublished, passing bool
	batch := &pgx.Batch{}
	batch.Queue(sqlSettings, q).QueryRow(settings.scanAny)
	batch.Queue(text("head"), q, limit).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&e.Item, &e.Generation, &e.Priority, &unpublished, &passing}, func() error {
			h.Ready = true
			switch {
			case settings.limited():
				h.Awaited = h.Awaited || passing
			case passing:
				h.Passing = append(h.Passing, Entry{Ref{e.Item, q, e.Generation}, e.Priority})
			case unpublished:
				h.Unpublished++
			}
			return nil
		})
		return err
	})
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return Head{}, fmt.Errorf("look at the head of queue %d: %w", q, err)
	}
	h.Paused = settings.paused
	return h, nil
}
