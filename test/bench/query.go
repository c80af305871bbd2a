package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/gorilla/websocket"
)

// question is what is asked of Millrace, and of ClickHouse itself.
type question struct {
	name, path string
	query      url.Values
	peer, sql  string
}

// today is where the day begins for ClickHouse as for the funnel.
const today = "toStartOfDay(now('UTC'))"

func funnelSQL(unique, from string) string {
	return "SELECT stage, count(), " + unique + "(article_hash) FROM events WHERE occurred_at >= " + from +
		" GROUP BY stage"
}

func questions() []question {
	var all []question
	for _, period := range []struct{ name, from string }{{"today", today}, {"30d", "now('UTC') - INTERVAL 30 DAY"}} {
		for _, method := range []struct{ name, unique string }{{"exact", "uniqExact"}, {"sketch", "uniqCombined64"}} {
			all = append(all, question{
				name: "GET /funnel, " + period.name + ", " + method.name, path: "/funnel",
				query: url.Values{"period": {period.name}, "uniques": {method.name}},
				peer:  "SQL, " + method.unique, sql: funnelSQL(method.unique, period.from),
			})
		}
	}
	return append(all, question{
		name: "GET /events, 100 newest", path: "/events", query: url.Values{"limit": {"100"}},
		peer: "SQL, ORDER BY LIMIT 100",
		sql: `SELECT seq, occurred_at, stage, source_name, service_name, article_url, hex(article_hash), metadata
			FROM events ORDER BY occurred_at DESC, seq DESC LIMIT 100`,
	})
}

// query measures how long questions take, one after the other.
func (b *bench) query(ctx context.Context) error {
	m, err := b.ready(ctx)
	if err != nil {
		return err
	}
	b.say("asking")
	db := clickhouse.OpenDB(chOptions(m.clickhouse))
	defer db.Close()
	for _, q := range questions() {
		ask := func(ctx context.Context) error { return m.get(ctx, q.path, q.query, nil) }
		if err := b.compare(ctx, q.name, ask, q.peer, func(ctx context.Context) error {
			return rows(ctx, db, q.sql)
		}); err != nil {
			return err
		}
	}
	if err := b.journeys(ctx, m, db); err != nil {
		return err
	}
	return b.snapshots(ctx, m)
}

// compare asks often, the one way and then the other.
func (b *bench) compare(
	ctx context.Context, name string, ask func(context.Context) error, peer string, askPeer func(context.Context) error,
) error {
	const times = 200
	own, err := press(ctx, 1, b.window(), times, ask)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var other load
	if askPeer != nil {
		if other, err = press(ctx, 1, b.window(), times, askPeer); err != nil {
			return fmt.Errorf("%s: %w", peer, err)
		}
	}
	b.add(
		line{"query", name + ": median", "ms", less, own.at(.5), peer, other.at(.5)},
		line{"query", name + ": 99th percentile", "ms", less, own.at(.99), peer, other.at(.99)},
	)
	return nil
}

func rows(ctx context.Context, db *sql.DB, query string, args ...any) error {
	r, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	defer r.Close()
	for r.Next() { // reading them is what takes the time; nobody wants the values
	}
	return r.Err()
}

func (b *bench) journeys(ctx context.Context, m *millrace, db *sql.DB) error {
	hash := func() string { return b.history.urlHash(b.history.moments[rand.IntN(len(b.history.moments))].article) }
	return b.compare(ctx, "GET /articles/…/journey", func(ctx context.Context) error {
		return m.get(ctx, "/articles/"+hash()+"/journey", nil, nil)
	}, "SQL, by article_hash", func(ctx context.Context) error {
		return rows(ctx, db, `SELECT seq, occurred_at, stage, source_name, service_name, article_url, metadata
			FROM events WHERE article_hash = unhex(?) ORDER BY occurred_at`, hash())
	})
}

// snapshots measures the time from subscribing to the first snapshot.
func (b *bench) snapshots(ctx context.Context, m *millrace) error {
	ws, arrivals, err := m.listen(ctx)
	if err != nil {
		return err
	}
	defer ws.Close()
	id := 0
	return b.compare(ctx, "WebSocket, subscribe to snapshot, today", func(ctx context.Context) error {
		id++
		name := strconv.Itoa(id)
		if err := subscribe(ws, name, "today"); err != nil {
			return err
		}
		if _, err := next(ctx, arrivals); err != nil {
			return err
		}
		return unsubscribe(ws, name)
	}, "", nil)
}

func unsubscribe(ws *websocket.Conn, id string) error {
	if err := ws.SetWriteDeadline(time.Now().Add(liveTimeout)); err != nil {
		return err
	}
	return ws.WriteJSON(map[string]string{"op": "unsubscribe", "id": id})
}
