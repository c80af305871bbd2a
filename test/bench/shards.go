package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// shards measures what takes and summaries cost beside as many finished items
// as the history has events, and how fast pollers get through a queue.
func (b *bench) shards(ctx context.Context) (err error) {
	data := filepath.Join(b.dir, "shards")
	m, err := b.up(ctx, data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close(), os.RemoveAll(data)) }()
	if _, err := m.await(ctx, "millrace is up"); err != nil {
		return err
	}
	db, err := connectPostgres(ctx, data, m.postgres)
	if err != nil {
		return err
	}
	defer db.Close(context.Background())
	b.say("writing %d finished items", b.cfg.events)
	if err := finishItems(ctx, db, b.cfg.events/4); err != nil {
		return err
	}
	ready, files := 20_000, 100
	if b.cfg.events < 100_000 {
		ready, files = 400, 4
	}
	for i := range files {
		if err := m.registerFile(ctx, fmt.Sprintf("ready-%04d", i), ready/files); err != nil {
			return err
		}
	}
	b.say("taking, and asking for summaries")
	if err := b.takes(ctx, m, db); err != nil {
		return err
	}
	if err := b.summaries(ctx, m, db); err != nil {
		return err
	}
	return b.pollers(ctx, m)
}

func connectPostgres(ctx context.Context, data, addr string) (*pgx.Conn, error) {
	password, err := os.ReadFile(filepath.Join(data, "postgres", "password"))
	if err != nil {
		return nil, fmt.Errorf("connect to postgres: %w", err)
	}
	return pgx.Connect(ctx,
		"postgres://millrace:"+strings.TrimSpace(string(password))+"@"+addr+"/millrace?sslmode=disable")
}

// finishItems writes files of four shards each that are done at every stage,
// with the counters and a line of history for each.
func finishItems(ctx context.Context, db *pgx.Conn, files int) error {
	const step = 25_000
	for from := 0; from < files; from += step {
		_, err := db.Exec(ctx, `WITH f AS (
				INSERT INTO millrace.file (filename) SELECT 'finished-' || lpad(n::text, 9, '0')
				FROM generate_series($1::integer, $2::integer) AS n RETURNING filename
			), made AS (
				INSERT INTO millrace.pipeline_tracking (filename, shard, event_ingest_status, shard_splitter_status,
				shard_worker_status, mysql_sender_status, shard_splitter_worker, shard_worker_worker, mysql_sender_worker,
					shard_splitter_attempts, shard_worker_attempts, mysql_sender_attempts)
				SELECT filename, s, 'done', 'done', 'done', 'done', 'host-1', 'host-2', 'host-3', 1, 1, 1
				FROM f, generate_series(0, 3) AS s RETURNING id, shard
			), told AS (
				INSERT INTO millrace.history (item_id, attempt, stage, move, status) SELECT id, 1, 3, 'done', 'done'
				FROM made
			)
			INSERT INTO millrace.tally_delta (kind, key, n)
			SELECT 100, shard, count(*) FROM made GROUP BY shard UNION ALL SELECT 101, shard, count(*) FROM made
			GROUP BY shard
			UNION ALL SELECT k, 0, (SELECT count(*) FROM made)
			FROM (VALUES (2), (12), (22), (32)) AS k (k)`, from, min(from+step, files)-1)
		if err != nil {
			return fmt.Errorf("write finished items: %w", err)
		}
	}
	_, err := db.Exec(ctx, "VACUUM (ANALYZE) millrace.pipeline_tracking")
	return err
}

func (m *millrace) registerFile(ctx context.Context, name string, shards int) error {
	list := make([]int, shards)
	for i := range list {
		list[i] = i
	}
	if err := m.command(ctx, "/files/register", map[string]any{"filename": name, "shards": list}, nil); err != nil {
		return err
	}
	return m.command(ctx, "/stages/event-ingest/done", map[string]any{"filename": name}, nil)
}

// command posts a document to shard tracking.
func (m *millrace) command(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.http+"/api/v1/pipeline"+path,
		bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	return decode(resp, http.StatusOK, into)
}

// took is what a take answers.
type took struct {
	Items []struct {
		Filename   string `json:"filename"`
		Shard      int    `json:"shard"`
		Generation int    `json:"generation"`
	} `json:"items"`
}

// takeAndFinish takes items of a stage and reports them done. It returns how
// long the take took, and how many there were.
func (m *millrace) takeAndFinish(ctx context.Context, stage string, limit int) (time.Duration, int, error) {
	var t took
	begin := time.Now()
	err := m.command(ctx, "/queues/"+stage+"/take",
		map[string]any{"worker": "bench", "limit": limit, "lease_s": 60}, &t)
	taking := time.Since(begin)
	if err != nil || len(t.Items) == 0 {
		return taking, 0, err
	}
	return taking, len(t.Items), m.command(ctx, "/stages/"+stage+"/done/bulk", map[string]any{"items": t.Items}, nil)
}

// takes measures takes, each beside the least that anything durable costs on
// the same server at the same moment: one row, synced.
func (b *bench) takes(ctx context.Context, m *millrace, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "CREATE TABLE floor (n integer)"); err != nil {
		return err
	}
	var l, floor load
	for range min(500, b.cfg.events/100) {
		begin := time.Now()
		if _, err := db.Exec(ctx, "INSERT INTO floor VALUES (1)"); err != nil {
			return err
		}
		floor.latency = append(floor.latency, time.Since(begin))
		taking, n, err := m.takeAndFinish(ctx, "shard-splitter", 10)
		if err != nil {
			return err
		}
		if n > 0 {
			l.latency = append(l.latency, taking)
		}
	}
	if len(l.latency) == 0 {
		return errors.New("nothing could be taken")
	}
	slices.Sort(l.latency)
	slices.Sort(floor.latency)
	b.add(
		line{"shards", "take of 10 by HTTP: median", "ms", less, l.at(.5), "SQL, INSERT of a row", floor.at(.5)},
		line{
			"shards", "take of 10 by HTTP: 99th percentile", "ms", less, l.at(.99), "SQL, INSERT of a row",
			floor.at(.99),
		},
		line{"shards", "", "ms", less, l.at(.99), "the promise", 20},
	)
	return nil
}

// summarySQL is what the specification has for a summary.
const summarySQL = `SELECT count(*), count(*) FILTER (WHERE shard_splitter_status = 'new'),
	count(*) FILTER (WHERE shard_splitter_status = 'started'),
	count(*) FILTER (WHERE shard_splitter_status = 'done'), count(*) FILTER (WHERE shard_splitter_status = 'failed'),
	count(*) FILTER (WHERE shard_worker_status = 'new'), count(*) FILTER (WHERE shard_worker_status = 'started'),
	count(*) FILTER (WHERE shard_worker_status = 'done'), count(*) FILTER (WHERE shard_worker_status = 'failed'),
	count(*) FILTER (WHERE mysql_sender_status = 'new'), count(*) FILTER (WHERE mysql_sender_status = 'started'),
	count(*) FILTER (WHERE mysql_sender_status = 'done'), count(*) FILTER (WHERE mysql_sender_status = 'failed')
	FROM millrace.pipeline_tracking`

func (b *bench) summaries(ctx context.Context, m *millrace, db *pgx.Conn) error {
	var sum struct {
		Total   int64                       `json:"total"`
		ByStage map[string]map[string]int64 `json:"by_stage"`
	}
	own, err := press(ctx, 1, b.window(), 500, func(ctx context.Context) error {
		return m.get(ctx, "/pipeline/metrics/summary", nil, &sum)
	})
	if err != nil {
		return err
	}
	counts := make([]int64, 13)
	to := make([]any, len(counts))
	for i := range counts {
		to[i] = &counts[i]
	}
	peer, err := press(ctx, 1, b.window(), 20, func(ctx context.Context) error {
		return db.QueryRow(ctx, summarySQL).Scan(to...)
	})
	if err != nil {
		return err
	}
	for i, stage := range []string{"shard_splitter", "shard_worker", "mysql_sender"} {
		for j, status := range []string{"new", "started", "done", "failed"} {
			if got, want := sum.ByStage[stage][status], counts[1+4*i+j]; got != want || sum.Total != counts[0] {
				return fmt.Errorf("the summary has %d that are %s at %s, of %d; a recount %d of %d", got, status, stage,
					sum.Total, want, counts[0])
			}
		}
	}
	b.add(
		line{"shards", "GET /metrics/summary: median", "ms", less, own.at(.5), "SQL, count FILTER", peer.at(.5)},
		line{"shards", "GET /metrics/summary: 99th percentile", "ms", less, own.at(.99), "the promise", 20},
	)
	return nil
}

// pollers work off what is left of the first queue.
func (b *bench) pollers(ctx context.Context, m *millrace) error {
	var items atomic.Int64
	l, err := press(ctx, 4, 2*b.window(), 0, func(ctx context.Context) error {
		_, n, err := m.takeAndFinish(ctx, "shard-splitter", 100)
		items.Add(int64(n))
		if n == 0 && err == nil {
			return errEmpty
		}
		return err
	})
	if err != nil && !errors.Is(err, errEmpty) {
		return err
	}
	b.add(line{
		"shards", "take 100 and done/bulk by HTTP, 4 pollers", "items/s", more,
		float64(items.Load()) / l.took.Seconds(), "", 0,
	})
	return nil
}

var errEmpty = errors.New("the queue is empty")
