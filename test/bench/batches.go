package main

import (
	"bytes"
	"context"
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

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Of the batches of crawled items.
const (
	objectItems = 50
	batchBucket = "crawl"
	batchJob    = "bench-brand-0"
	// batchPace is how often a batch is announced whose latency is measured.
	batchPace = 100 * time.Millisecond
	// batchInterval is the fold's least time between two inserts, in milliseconds.
	batchInterval = 50
)

// batches measures how fast items are read from stored objects and stored, and how long one
// batch takes, each beside a loop that gets, parses and inserts the same objects, and promises
// nothing. Objects are files: of all storages they keep a loop waiting least.
func (b *bench) batches(ctx context.Context) (err error) {
	data, folder := filepath.Join(b.dir, "batches"), filepath.Join(b.dir, "objects")
	n := max(b.cfg.events/objectItems, 20)
	late := min(max(b.cfg.events/5000, 20), 300)
	b.say("writing %d objects", n+late)
	if err := writeObjects(folder, n+late); err != nil {
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
	rate, peak, err := b.readBatches(ctx, m, n)
	if err != nil {
		return err
	}
	latency, err := m.batchLatency(ctx, n, late)
	if err != nil {
		return err
	}
	b.say("the plain loop")
	loop, err := openPlainBatches(ctx, m.clickhouse, folder)
	if err != nil {
		return err
	}
	defer loop.conn.Close()
	plainRate, err := loop.drain(ctx, n)
	if err != nil {
		return err
	}
	plain, err := loop.latency(ctx, n, late)
	if err != nil {
		return err
	}
	const s = "batches"
	b.add(
		line{s, "items from stored objects", "items/s", more, rate, "plain loop: get, parse, insert", plainRate},
		line{s, "peak memory, whole tree (RSS)", "MB", less, megabytes(peak.RSS), "limit", 1500},
		line{s, "announcement to outcome, 10 batches/s: median", "ms", less, latency.at(.5), "plain loop", plain.at(.5)},
		line{
			s, "announcement to outcome, 10 batches/s: 95th percentile", "ms", less, latency.at(.95),
			"3 plain loops and the fold's interval", 3*plain.at(.95) + batchInterval,
		},
	)
	return nil
}

func batchKey(i int) string { return fmt.Sprintf("%s/batch_%06d.json", batchJob, i) }

// writeObjects writes batches of which each has one error.
func writeObjects(folder string, n int) error {
	dir := filepath.Join(folder, batchBucket, batchJob)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	words := strings.Repeat("as people write about what they have seen, ", 8)
	for i := range n {
		var text bytes.Buffer
		for position := range objectItems {
			status := `"success"`
			if position == 7 {
				status = `"error","error_code":"CONTENT_REMOVED","fetch_error":"it is gone"`
			}
			fmt.Fprintf(&text, `%c{"content_id":"%d-%d","fetch_status":%s,"permalink":"https://example.com/v/%d-%d",`+
				`"crawled_at":"2026-02-10T14:30:00Z","pipeline_version":"crawler_tiktok_v3","keyword_source":"VinFast VF8",`+
				`"text":%q,"interaction":{"views":%d,"likes":%d}}`, "[,"[min(position, 1)], i, position, status, i, position,
				words, i*position, i)
		}
		text.WriteByte(']')
		if err := os.WriteFile(filepath.Join(folder, batchBucket, batchKey(i)), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func batchMessage(i int) []byte {
	return fmt.Appendf(nil, `{"payload":{"minio_path":"%s/%s","job_id":%q,"batch_index":%d,"content_count":%d,"platform":"tiktok"}}`,
		batchBucket, batchKey(i), batchJob, i, objectItems)
}

// batchSums are the sums of batches.
type batchSums struct {
	Batches int `json:"batches"`
	OK      int `json:"ok"`
	Error   int `json:"error"`
}

// readBatches announces batches while they are not taken, and measures how long they take then.
func (b *bench) readBatches(ctx context.Context, m *millrace, n int) (rate float64, peak peaks, err error) {
	if err := m.batchModes(ctx, false); err != nil {
		return 0, peak, err
	}
	b.say("announcing %d batches", n)
	for i := range n {
		if _, err := m.js.PublishAsync(stream.BatchCollected, batchMessage(i)); err != nil {
			return 0, peak, err
		}
	}
	select {
	case <-m.js.PublishAsyncComplete():
	case <-ctx.Done():
		return 0, peak, ctx.Err()
	}
	b.say("reading %d items", n*objectItems)
	memory := watch(m.pid())
	profiled := b.profile(ctx, m, max(1, n*objectItems/100_000))
	begin := time.Now()
	err = m.batchModes(ctx, true)
	var sums batchSums
	for err == nil && sums.Batches < n {
		time.Sleep(20 * time.Millisecond)
		err = m.get(ctx, "/batches/summary", url.Values{"job_id": {batchJob}}, &sums)
	}
	took := time.Since(begin)
	peak = memory.end()
	if err := errors.Join(err, <-profiled); err != nil {
		return 0, peak, err
	}
	if want := (batchSums{n, n * (objectItems - 1), n}); sums != want {
		return 0, peak, fmt.Errorf("the sums are %+v, want %+v", sums, want)
	}
	rate = float64(n*objectItems) / took.Seconds()
	b.say("stored %.0f items/s", rate)
	return rate, peak, nil
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
func (m *millrace) batchLatency(ctx context.Context, from, n int) (l load, err error) {
	pace := time.NewTicker(batchPace)
	defer pace.Stop()
	for i := from; i < from+n; i++ {
		begin := time.Now()
		if _, err := m.js.Publish(ctx, stream.BatchCollected, batchMessage(i)); err != nil {
			return l, err
		}
		for shown := false; !shown; {
			time.Sleep(2 * time.Millisecond)
			var page struct {
				Items []struct {
					Index int `json:"batch_index"`
				}
			}
			if err := m.get(ctx, "/batches", url.Values{"limit": {"1"}}, &page); err != nil {
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

// plainBatches is the loop that anyone would write first.
type plainBatches struct {
	conn   driver.Conn
	folder string
}

func openPlainBatches(ctx context.Context, addr, folder string) (p plainBatches, err error) {
	p.folder = folder
	if p.conn, err = clickhouse.Open(chOptions(addr)); err != nil {
		return p, fmt.Errorf("open clickhouse: %w", err)
	}
	err = p.conn.Exec(ctx, `CREATE TABLE plain_items (job_id String, batch_index UInt32, position UInt32, content_id String,
		permalink String, crawled_at DateTime, keyword_source LowCardinality(String), pipeline_version LowCardinality(String),
		fetch_status LowCardinality(String), error_code LowCardinality(String), fetch_error String, content String CODEC(ZSTD(1)))
		ENGINE = MergeTree ORDER BY (job_id, batch_index, position)`)
	if err != nil {
		return p, errors.Join(fmt.Errorf("create the table of the plain loop: %w", err), p.conn.Close())
	}
	return p, nil
}

// plainItem are the members of an item that have columns of their own.
type plainItem struct {
	ID        string    `json:"content_id"`
	Status    string    `json:"fetch_status"`
	Code      string    `json:"error_code"`
	Error     string    `json:"fetch_error"`
	Permalink string    `json:"permalink"`
	CrawledAt time.Time `json:"crawled_at"`
	Keyword   string    `json:"keyword_source"`
	Pipeline  string    `json:"pipeline_version"`
}

// add gets and parses an object, and adds its items to an insert.
func (p plainBatches) add(to driver.Batch, i int) error {
	text, err := os.ReadFile(filepath.Join(p.folder, batchBucket, batchKey(i)))
	if err != nil {
		return err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err != nil {
		return err
	}
	for position, content := range items {
		var item plainItem
		if err := json.Unmarshal(content, &item); err != nil {
			return err
		}
		err := to.Append(batchJob, uint32(i), uint32(position), item.ID, item.Permalink, item.CrawledAt, item.Keyword,
			item.Pipeline, item.Status, item.Code, item.Error, string(content))
		if err != nil {
			return err
		}
	}
	return nil
}

// insert gets, parses and inserts some objects.
func (p plainBatches) insert(ctx context.Context, from, n int) error {
	batch, err := p.conn.PrepareBatch(ctx, "INSERT INTO plain_items")
	if err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	for i := from; i < from+n; i++ {
		if err := p.add(batch, i); err != nil {
			return err
		}
	}
	return batch.Send()
}

// drain inserts all objects, many at a time, and returns the items of a second.
func (p plainBatches) drain(ctx context.Context, n int) (rate float64, err error) {
	begin := time.Now()
	const step = floorRows / objectItems
	for from := 0; from < n; from += step {
		if err := p.insert(ctx, from, min(step, n-from)); err != nil {
			return 0, err
		}
	}
	return float64(n*objectItems) / time.Since(begin).Seconds(), nil
}

// latency inserts objects one at a time, at the pace at which they are announced.
func (p plainBatches) latency(ctx context.Context, from, n int) (l load, err error) {
	pace := time.NewTicker(batchPace)
	defer pace.Stop()
	for i := from; i < from+n; i++ {
		begin := time.Now()
		if err := p.insert(ctx, i, 1); err != nil {
			return l, err
		}
		l.latency = append(l.latency, time.Since(begin))
		<-pace.C
	}
	slices.Sort(l.latency)
	return l, nil
}
