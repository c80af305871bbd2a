package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Of the batches of crawled items.
const (
	objectItems = 50
	batchBucket = "crawl"
	// batchPace is how often a batch is announced whose latency is measured.
	batchPace = 100 * time.Millisecond
	// batchInterval is the fold's least time between two inserts, in milliseconds.
	batchInterval = 50
)

// crawlJob is a job whose batches are alike.
type crawlJob struct {
	job    string
	errors []int  // positions of the items that are errors; nil: all of them
	code   string // of the errors
	again  bool   // they are tried again
}

var (
	ordinary = crawlJob{job: "bench-brand-0", errors: []int{7}, code: "CONTENT_REMOVED"}
	storm    = crawlJob{job: "bench-storm-0", code: "RATE_LIMITED", again: true}
)

// want are the sums of n batches.
func (c crawlJob) want(n int) batchSums {
	failed := n * objectItems
	if c.errors != nil {
		failed = n * len(c.errors)
	}
	sums := batchSums{Batches: n, Items: n * objectItems, OK: n*objectItems - failed}
	if c.again {
		sums.Retrying = failed
	} else {
		sums.Error = failed
	}
	return sums
}

func (c crawlJob) key(i int) string { return fmt.Sprintf("%s/batch_%06d.json", c.job, i) }

func (c crawlJob) message(bucket string, i int) []byte {
	return fmt.Appendf(nil, `{"payload":{"minio_path":"%s/%s","job_id":%q,"batch_index":%d,"content_count":%d,"platform":"tiktok"}}`,
		bucket, c.key(i), c.job, i, objectItems)
}

// write writes batches as files.
func (c crawlJob) write(folder string, n int) error {
	dir := filepath.Join(folder, batchBucket, c.job)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(folder, batchBucket, c.key(i)), c.batch(i), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var words = strings.Repeat("as people write about what they have seen, ", 8)

func (c crawlJob) batch(i int) []byte {
	var text bytes.Buffer
	for position := range objectItems {
		status := `"success"`
		if c.errors == nil || slices.Contains(c.errors, position) {
			status = fmt.Sprintf(`"error","error_code":%q,"fetch_error":"it is gone"`, c.code)
		}
		fmt.Fprintf(&text, `%c{"content_id":"%d-%d","fetch_status":%s,"permalink":"https://example.com/v/%d-%d",`+
			`"crawled_at":"2026-02-10T14:30:00Z","pipeline_version":"crawler_tiktok_v3","keyword_source":"VinFast VF8",`+
			`"text":%q,"interaction":{"views":%d,"likes":%d}}`, "[,"[min(position, 1)], i, position, status, i, position,
			words, i*position, i)
	}
	text.WriteByte(']')
	return text.Bytes()
}

// batches measures how fast items are read from stored objects and stored, and how long one
// batch takes, each beside a loop that gets, parses and inserts the same objects, and promises
// nothing. Objects are files: of all storages they keep a loop waiting least. Then all items of
// many batches are errors that are tried again.
func (b *bench) batches(ctx context.Context) (err error) {
	data, folder := filepath.Join(b.dir, "batches"), filepath.Join(b.dir, "objects")
	n, stormy := max(b.cfg.items/objectItems, 20), max(b.cfg.storm/objectItems, 20)
	late := min(max(b.cfg.items/5000, 20), 300)
	b.say("writing %d objects", n+late+stormy)
	if err := errors.Join(ordinary.write(folder, n+late), storm.write(folder, stormy)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	m, err := b.up(ctx, data, "MILLRACE_OBJECTS_FOLDER="+folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close(), os.RemoveAll(data)) }()
	if _, err := m.await(ctx, "millrace is up"); err != nil {
		return err
	}
	read, err := b.readBatches(ctx, m, ordinary, n)
	if err != nil {
		return err
	}
	latency, err := m.batchLatency(ctx, ordinary, batchBucket, n, late)
	if err != nil {
		return err
	}
	b.say("the plain loop")
	loop, err := openPlainBatches(ctx, m.clickhouse, folder)
	if err != nil {
		return err
	}
	defer loop.conn.Close()
	drained, err := loop.drain(ctx, m, n)
	if err != nil {
		return err
	}
	plain, err := loop.latency(ctx, n, late)
	if err != nil {
		return err
	}
	failing, err := b.readBatches(ctx, m, storm, stormy)
	if err != nil {
		return err
	}
	const s = "batches"
	b.add(
		line{s, "items from stored objects", "items/s", more, read.rate(), "plain loop: get, parse, insert", drained.rate()},
		line{
			s, "processor, millrace (NATS inside)", "µs/item", less, read.cost(read.consumer), "plain loop",
			drained.cost(drained.consumer),
		},
		line{
			s, "processor, ClickHouse", "µs/item", less, read.cost(read.clickhouse), "plain loop: ClickHouse",
			drained.cost(drained.clickhouse),
		},
		line{s, "processor, Postgres", "µs/item", less, read.cost(read.postgres), "", 0},
		line{s, "peak memory, whole tree (RSS)", "MB", less, megabytes(read.peak.RSS), "limit", 1500},
		line{s, "peak memory, shared pages once (PSS)", "MB", less, megabytes(read.peak.PSS), "", 0},
		line{s, "peak memory, millrace", "MB", less, megabytes(read.peak.Root), "", 0},
		line{s, "peak memory, ClickHouse", "MB", less, megabytes(read.peak.ClickHouse), "", 0},
		line{s, "announcement to outcome, 10 batches/s: median", "ms", less, latency.at(.5), "plain loop", plain.at(.5)},
		line{
			s, "announcement to outcome, 10 batches/s: 95th percentile", "ms", less, latency.at(.95),
			"3 plain loops and the fold's interval", 3*plain.at(.95) + batchInterval,
		},
		line{
			s, "storm: items that are all RATE_LIMITED", "items/s", more, failing.rate(), "items of which one in 50 is an error",
			read.rate(),
		},
		line{
			s, "storm: processor, millrace", "µs/item", less, failing.cost(failing.consumer), "one in 50 is an error",
			read.cost(read.consumer),
		},
		line{
			s, "storm: processor, ClickHouse", "µs/item", less, failing.cost(failing.clickhouse), "one in 50 is an error",
			read.cost(read.clickhouse),
		},
		line{
			s, "storm: processor, Postgres", "µs/item", less, failing.cost(failing.postgres), "one in 50 is an error",
			read.cost(read.postgres),
		},
		line{s, "storm: looks at which all sums were right", "looks", more, float64(failing.looks), "looks", float64(failing.looks)},
		line{s, "storm: peak memory, whole tree (RSS)", "MB", less, megabytes(failing.peak.RSS), "limit", 1500},
		line{s, "storm: peak memory, shared pages once (PSS)", "MB", less, megabytes(failing.peak.PSS), "", 0},
		line{s, "storm: peak memory, millrace", "MB", less, megabytes(failing.peak.Root), "", 0},
		line{s, "storm: peak memory, ClickHouse", "MB", less, megabytes(failing.peak.ClickHouse), "", 0},
	)
	return errors.Join(b.itemByID(ctx, m), b.slowBucket(ctx))
}

// batchSums are the sums of the batches of a job.
type batchSums struct {
	Batches  int `json:"batches"`
	Items    int `json:"content_count"`
	OK       int `json:"ok"`
	Error    int `json:"error"`
	Retrying int `json:"retrying"`
}

// batchRun is one drain of batches.
type batchRun struct {
	run
	postgres time.Duration // of processor
	looks    int           // at the sums
}

// lookEvery is how often somebody looks at all sums of batches, which takes Postgres a while.
const lookEvery = time.Second

// readBatches announces batches while they are not taken, and measures how long they take then.
func (b *bench) readBatches(ctx context.Context, m *millrace, c crawlJob, n int) (r batchRun, err error) {
	pool, err := m.postgresPool(ctx)
	if err != nil {
		return r, err
	}
	defer pool.Close()
	if err := m.batchModes(ctx, false); err != nil {
		return r, err
	}
	b.say("announcing %d batches", n)
	if err := m.announce(ctx, c, batchBucket, n); err != nil {
		return r, err
	}
	b.say("reading %d items", n*objectItems)
	memory := watch(m.pid())
	profiled := b.profile(ctx, m, max(1, n*objectItems/40_000))
	spent := m.spent()
	looks, err := m.readAll(ctx, pool, c, n)
	r = spent.end(n * objectItems)
	r.peak, r.looks = memory.end(), looks+1
	if err := errors.Join(err, <-profiled); err != nil {
		return r, err
	}
	sums, err := lookAtBatches(ctx, pool, c.job)
	if err != nil {
		return r, err
	}
	var told batchSums
	if err := m.get(ctx, "/batches/summary", url.Values{"job_id": {c.job}}, &told); err != nil {
		return r, err
	}
	if want := c.want(n); sums != want || told != want {
		return r, fmt.Errorf("the sums are %+v, and %+v over HTTP, want %+v", sums, told, want)
	}
	b.say("stored %.0f items/s", r.rate())
	return r, nil
}

// announce announces batches, many at a time.
func (m *millrace) announce(ctx context.Context, c crawlJob, bucket string, n int) error {
	for i := range n {
		if _, err := m.js.PublishAsync(stream.BatchCollected, c.message(bucket, i), jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-m.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readAll has batches taken, and returns when all of them are stored, and how often it has looked
// at their sums meanwhile.
func (m *millrace) readAll(ctx context.Context, pool *pgxpool.Pool, c crawlJob, n int) (looks int, err error) {
	if err := m.batchModes(ctx, true); err != nil {
		return 0, err
	}
	looked := time.Now()
	for stored := 0; ; {
		err := pool.QueryRow(ctx, "SELECT count(*) FROM millrace.batch WHERE job_id = $1", c.job).Scan(&stored)
		if err != nil {
			return looks, fmt.Errorf("count batches: %w", err)
		}
		if stored >= n {
			return looks, nil
		}
		if time.Since(looked) >= lookEvery {
			if _, err := lookAtBatches(ctx, pool, c.job); err != nil {
				return looks, err
			}
			looked = time.Now()
			looks++
		}
		time.Sleep(50 * time.Millisecond)
	}
}

//go:embed sql/batchsums.sql
var sqlBatchSums string

// lookAtBatches returns the sums of a job at one instant. It is an error when they do not add up
// in a batch, or are not those of the items that are errors.
func lookAtBatches(ctx context.Context, pool *pgxpool.Pool, job string) (s batchSums, err error) {
	var wrong, isError, tried int
	err = pool.QueryRow(ctx, sqlBatchSums, job).
		Scan(&s.Batches, &s.Items, &s.OK, &s.Error, &s.Retrying, &wrong, &isError, &tried)
	if err != nil {
		return s, fmt.Errorf("look at the sums of batches: %w", err)
	}
	if wrong > 0 || isError != s.Error || tried != s.Retrying {
		return s, fmt.Errorf("the sums of %d batches do not add up; of all, %+v, %d items are errors and %d are tried again",
			wrong, s, isError, tried)
	}
	return s, nil
}

// spending is what the processes of a program had spent when a measurement began.
type spending struct {
	m                      *millrace
	begin                  time.Time
	whole, own, clickhouse time.Duration
}

func (m *millrace) spent() spending {
	return spending{
		m, time.Now(), spentByFamily(m.pid()), spentBy(m.pid()), spentByFamily(clickhouseIn(m.pid())),
	}
}

// end returns what the program has spent on some items since.
func (s spending) end(items int) (r batchRun) {
	now := s.m.spent()
	r.seconds, r.events = now.begin.Sub(s.begin).Seconds(), items
	r.consumer, r.clickhouse = now.own-s.own, now.clickhouse-s.clickhouse
	r.postgres = now.whole - s.whole - r.consumer - r.clickhouse
	return r
}

func (m *millrace) batchModes(ctx context.Context, on bool) error {
	text, err := json.Marshal(map[string]bool{"new_mode": on})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+m.http+"/api/v1/batches/modes", bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return decode(resp, http.StatusOK, nil)
}

// batchLatency announces batches at a pace, and returns how long each took until it was shown.
func (m *millrace) batchLatency(ctx context.Context, c crawlJob, bucket string, from, n int) (l load, err error) {
	pace := time.NewTicker(batchPace)
	defer pace.Stop()
	for i := from; i < from+n; i++ {
		begin := time.Now()
		if _, err := m.js.Publish(ctx, stream.BatchCollected, c.message(bucket, i)); err != nil {
			return l, err
		}
		for shown := false; !shown; {
			time.Sleep(2 * time.Millisecond)
			var page struct {
				Items []struct {
					Index int `json:"batch_index"`
				}
			}
			if err := m.get(ctx, "/batches", url.Values{"limit": {"1"}, "job_id": {c.job}}, &page); err != nil {
				return l, err
			}
			shown = len(page.Items) > 0 && page.Items[0].Index == i
		}
		l.latency = append(l.latency, time.Since(begin))
		select {
		case <-pace.C:
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
	slices.Sort(l.latency)
	return l, nil
}
