package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// plainBatches is the loop that anyone would write first.
type plainBatches struct {
	crawlJob
	conn   driver.Conn
	folder string
}

func openPlainBatches(ctx context.Context, addr, folder string) (p plainBatches, err error) {
	p.crawlJob, p.folder = ordinary, folder
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
	text, err := os.ReadFile(filepath.Join(p.folder, batchBucket, p.key(i)))
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
		err := to.Append(p.job, uint32(i), uint32(position), item.ID, item.Permalink, item.CrawledAt, item.Keyword,
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

// drain inserts all objects, many at a time.
func (p plainBatches) drain(ctx context.Context, m *millrace, n int) (r batchRun, err error) {
	begin, own := m.spent(), spentBy(os.Getpid())
	const step = floorRows / objectItems
	for from := 0; from < n; from += step {
		if err := p.insert(ctx, from, min(step, n-from)); err != nil {
			return r, err
		}
	}
	r = begin.end(n * objectItems)
	r.consumer = spentBy(os.Getpid()) - own
	return r, nil
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
