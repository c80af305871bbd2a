package store

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
)

// EventCursor is an event's place in the order of pages.
type EventCursor struct {
	At  int64 // occurred_at, nanoseconds since 1970
	Seq uint64
}

// Newest lies before all events, since pages begin with the newest.
var newest = EventCursor{math.MaxInt64, math.MaxUint64}

// EventFilter says which events a page holds. The zero value of a field does
// not filter.
type EventFilter struct {
	URL, Hash              string // article_url, and url_hash in lower-case hex
	Stage, Source, Service string
	Trace                  string      // trace_id
	From, To               time.Time   // [From, To)
	After                  EventCursor // the last event of the page before
	Limit                  int
}

// Event is a row of the events table.
type Event struct {
	Seq                    uint64
	OccurredAt, ReceivedAt time.Time
	Stage, Source, Service string
	Domain, URL, Hash      string
	CanonicalURL, TraceID  string
	Key                    string // the idempotency key, sent or computed
	Metadata               string // a JSON object, or empty
	SchemaVersion          uint16
}

// pageBytes is with how much metadata a page is full.
const pageBytes = 8 << 20

// Exceed tells whether there are more events than the filter's limit.
func (s *Store) Exceed(ctx context.Context, f EventFilter) (exceed bool, err error) {
	err = s.set.Each(ctx, "events_exceed.sql", f.params(), func(rows driver.Rows) error {
		var found uint64
		err := rows.Scan(&found)
		exceed = found > uint64(f.Limit)
		return err
	})
	return exceed, err
}

// Events returns a page of events, newest first, and whether there are more. A
// page has one event at least, if there is one, and ends with the one whose
// metadata fills 8 MiB.
func (s *Store) Events(ctx context.Context, f EventFilter) (page []Event, more bool, err error) {
	var found uint64 // one more than fits tells that there are more
	err = s.set.Each(ctx, "events.sql", f.params(), func(rows driver.Rows) error {
		e, err := scanEvent(rows, &found)
		if err == nil {
			page = append(page, e)
		}
		return err
	})
	page = page[:min(len(page), f.Limit)]
	return page, found > uint64(len(page)), err
}

func (f EventFilter) params() reads.Params {
	after, from, to := f.After, int64(0), int64(math.MaxInt64)
	if after == (EventCursor{}) {
		after = newest
	}
	if !f.From.IsZero() {
		from = f.From.UnixNano()
	}
	if !f.To.IsZero() {
		to = f.To.UnixNano()
	}
	return reads.Params{
		"from": from, "to": to, "cursor_at": after.At, "cursor_seq": after.Seq, "hash": f.Hash, "url": f.URL,
		"stage": f.Stage, "source": f.Source, "service": f.Service, "trace": f.Trace, "limit": f.Limit + 1,
		"bytes": pageBytes,
	}
}

// scanEvent reads the columns of an event, and more behind them.
func scanEvent(rows driver.Rows, more ...any) (Event, error) {
	var e Event
	var key, model, channel string
	var reclassified bool
	columns := []any{
		&e.Seq, &e.OccurredAt, &e.ReceivedAt, &e.Stage, &e.Source, &e.Service, &e.Domain, &e.URL, &e.Hash,
		&e.CanonicalURL, &e.TraceID, &key, &e.Metadata, &e.SchemaVersion, &model, &channel, &reclassified,
	}
	if err := rows.Scan(append(columns, more...)...); err != nil {
		return e, err
	}
	e.OccurredAt, e.ReceivedAt = e.OccurredAt.UTC(), e.ReceivedAt.UTC()
	r := event.Record{
		ServiceName: []byte(e.Service), Stage: []byte(e.Stage), IdempotencyKey: []byte(key),
		OccurredAt: e.OccurredAt.UnixNano(),
		Meta: event.Metadata{
			ModelVersion: []byte(model), Channel: []byte(channel), IsReclassification: reclassified,
		},
	}
	if _, err := hex.Decode(r.URLHash[:], []byte(e.Hash)); err != nil {
		return e, fmt.Errorf("event %d: %w", e.Seq, err)
	}
	e.Key = string(r.AppendKey(nil))
	return e, nil
}

// Reached is when an article first reached a stage, and its events there.
type Reached struct {
	FirstAt time.Time
	Events  uint64
}

// Journey returns how an article went through the stages, and its newest
// events, the newest first: up to the limit, and up to the one whose metadata
// fills 8 MiB.
func (s *Store) Journey(ctx context.Context, hash string, limit int) ([]Event, map[string]Reached, error) {
	var events []Event
	stages := map[string]Reached{}
	p := reads.Params{"hash": hash, "limit": limit + event.MaxStages, "bytes": pageBytes}
	err := s.set.Each(ctx, "journey.sql", p, func(rows driver.Rows) error {
		var r Reached
		e, err := scanEvent(rows, &r.FirstAt, &r.Events)
		if err != nil {
			return err
		}
		r.FirstAt = r.FirstAt.UTC()
		events, stages[e.Stage] = append(events, e), r
		return nil
	})
	slices.SortFunc(
		events, func(a, b Event) int { return cmp.Or(b.OccurredAt.Compare(a.OccurredAt), cmp.Compare(b.Seq, a.Seq)) },
	)
	return fitting(events, limit), stages, err
}

// fitting returns the first events, up to a limit and to the one that fills a
// page.
func fitting(events []Event, limit int) []Event {
	held := 0
	for i, e := range events {
		if i == limit || held >= pageBytes {
			return events[:i]
		}
		held += len(e.Metadata)
	}
	return events
}
