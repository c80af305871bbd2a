package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/dbpool"
)

// EventsTable is the events table. It is safe for concurrent use.
//
// It uses SQL and not the HTTP API because it needs more than numbers: which articles a
// stage has, and when live events began, at one state of the table. The analyst's login is
// enough.
type EventsTable struct{ conn driver.Conn }

// OpenEvents returns the table, and connects with the first question. The caller closes it.
func OpenEvents(o *clickhouse.Options) (*EventsTable, error) {
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, fmt.Errorf("connect to ClickHouse: %w", err)
	}
	return &EventsTable{conn}, nil
}

// Close ends the connections.
func (t *EventsTable) Close() error { return t.conn.Close() }

// FirstLive returns, for each stage, when its first live event happened, that is
// one that was not backfilled. For months that have been summed up it returns the
// day. A stage without live events is absent.
func (t *EventsTable) FirstLive(ctx context.Context) (map[string]time.Time, error) {
	const query = `
		SELECT stage, min(at) FROM
		(
			SELECT toString(stage) AS stage, toInt64(toUnixTimestamp64Nano(min(occurred_at))) AS at FROM events
			WHERE NOT backfilled GROUP BY stage
			UNION ALL
			SELECT toString(stage) AS stage, toInt64(toUnixTimestamp(toDateTime(min(period), 'UTC'))) * 1000000000 AS at
			FROM events_daily FINAL
			WHERE dimension = '' AND events > backfilled
			AND (toYYYYMM(period), upto) GLOBAL IN (SELECT month, upto FROM retired)
			GROUP BY stage
		)
		GROUP BY stage`
	first := map[string]time.Time{}
	err := dbpool.EachRow(ctx, t.conn, query, nil, func(rows driver.Rows) error {
		var stage string
		var at int64
		err := rows.Scan(&stage, &at)
		first[stage] = time.Unix(0, at).UTC()
		return err
	})
	return first, wrap("ask for the first live events", err)
}

// ErrRetired is the error of questions about a month whose events have been summed
// up: only the numbers of whole days in UTC are known.
var ErrRetired = errors.New(
	"the events of this month have been summed up: only whole days in UTC can be counted, and nothing can be replayed",
)

// Retired tells whether a span touches a month whose events have been summed
// up.
func (t *EventsTable) Retired(ctx context.Context, span Span) (bool, error) {
	var n uint64
	err := t.conn.QueryRow(ctx,
		"SELECT count() FROM retired WHERE month BETWEEN toYYYYMM("+moment+") AND toYYYYMM("+moment+")",
		span.From.UnixNano(), span.Until.UnixNano()-1).Scan(&n)
	return n > 0, wrap("ask for months that have been summed up", err)
}

const moment = "fromUnixTimestamp64Nano(toInt64(?), 'UTC')"

// Count counts a stage's events of a span without some windows of time.
func (t *EventsTable) Count(
	ctx context.Context, stage string, span Span, without ...Span,
) (n int64, err error) {
	retired, err := t.Retired(ctx, span)
	if err != nil {
		return 0, err
	}
	query := "SELECT toInt64(count()) FROM events WHERE stage = ? AND " + within
	args := []any{stage, span.From.UnixNano(), span.Until.UnixNano()}
	if retired {
		if !wholeDays(span) || len(without) > 0 {
			return 0, fmt.Errorf("count events of %s: %w", stage, ErrRetired)
		}
		query = "SELECT toInt64(sum(events)) FROM daily_totals WHERE dimension = '' AND stage = ? AND period " +
			">= toDate(" + moment + ") AND period < toDate(" + moment + ")"
	}
	for _, w := range without {
		query += " AND NOT (" + within + ")"
		args = append(args, w.From.UnixNano(), w.Until.UnixNano())
	}
	if err := t.conn.QueryRow(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count events of %s: %w", stage, err)
	}
	return n, nil
}

func wholeDays(span Span) bool {
	const day = 24 * time.Hour
	return span.From.Equal(span.From.Truncate(day)) && span.Until.Equal(span.Until.Truncate(day))
}

const within = "occurred_at >= " + moment + " AND occurred_at < " + moment

// Articles gives the article's hash and the time of each of a stage's events
// of a span.
func (t *EventsTable) Articles(
	ctx context.Context, stage string, span Span, yield func(hash [32]byte, at time.Time),
) error {
	const query = "SELECT article_hash, toInt64(toUnixTimestamp64Nano(occurred_at)) FROM events WHERE stage = ? AND " + within
	args := []any{stage, span.From.UnixNano(), span.Until.UnixNano()}
	err := dbpool.EachRow(ctx, t.conn, query, args, func(rows driver.Rows) error {
		var hash []byte
		var at int64
		if err := rows.Scan(&hash, &at); err != nil {
			return err
		}
		yield([32]byte(hash), time.Unix(0, at).UTC())
		return nil
	})
	return wrap("read articles of "+stage, err)
}

// Items returns the URLs of a stage's events of a span that stand for items
// of executions, which have no URLs of their own.
func (t *EventsTable) Items(ctx context.Context, stage string, span Span) (map[string]bool, error) {
	const query = "SELECT DISTINCT article_url FROM events WHERE stage = ? AND domain = ? AND " + within
	args := []any{stage, Domain, span.From.UnixNano(), span.Until.UnixNano()}
	items := map[string]bool{}
	err := dbpool.EachRow(ctx, t.conn, query, args, func(rows driver.Rows) error {
		var url string
		err := rows.Scan(&url)
		items[url] = true
		return err
	})
	return items, wrap("read counted items of "+stage, err)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
