package main

import (
	"context"
	"crypto/md5"
	_ "embed"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed sql/storeitems.sql
	sqlStoreItems string
	//go:embed sql/plainitems.sql
	sqlPlainItems string
	//go:embed sql/plainitem.sql
	sqlPlainItem string
)

// storeStep is how many items are stored at once before they are looked up.
const storeStep = 500_000

// itemByID measures how long an item takes that is asked for by its id, and beside it a read
// from Postgres by primary key, among as many rows with the same columns. Both take turns.
func (b *bench) itemByID(ctx context.Context, m *millrace) error {
	n := b.cfg.stored
	pool, err := m.postgresPool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	b.say("storing %d items", n)
	if err := storeItems(ctx, m.clickhouse, pool, n); err != nil {
		return err
	}
	begin := time.Now()
	if err := m.indexed(ctx, n); err != nil {
		return err
	}
	indexed := time.Since(begin)
	times := min(max(n/100, 100), 2000)
	b.say("asking for %d of them", times)
	var own, peer load
	for range times {
		id := itemID(rand.IntN(n))
		begin := time.Now()
		if err := m.get(ctx, "/batch-items/"+id, nil, nil); err != nil {
			return err
		}
		asked := time.Now()
		var columns [17]any
		for i := range columns {
			columns[i] = new(any)
		}
		if err := pool.QueryRow(ctx, sqlPlainItem, id).Scan(columns[:]...); err != nil {
			return fmt.Errorf("read the item %s from Postgres: %w", id, err)
		}
		own.latency = append(own.latency, asked.Sub(begin))
		peer.latency = append(peer.latency, time.Since(asked))
	}
	byIndex, err := m.gauge(ctx, `millrace_batches_index_lookups_total{answered="index"}`)
	if err != nil {
		return err
	}
	slices.Sort(own.latency)
	slices.Sort(peer.latency)
	const s, by = "batches", "SQL in Postgres, by primary key"
	among := thousands(strconv.Itoa(n))
	b.add(
		line{s, "GET /batch-items/…, among " + among + ": median", "ms", less, own.at(.5), by, peer.at(.5)},
		line{s, "GET /batch-items/…, among " + among + ": 99th percentile", "ms", less, own.at(.99), by, peer.at(.99)},
		line{s, "of these answers, given by the index", "answers", more, byIndex, "asked for", float64(times)},
		line{s, "until the index has " + among, "s", less, indexed.Seconds(), "", 0},
	)
	return nil
}

// indexed waits until the index of items has as many outcomes at least.
func (m *millrace) indexed(ctx context.Context, n int) error {
	for {
		used, err := m.gauge(ctx, "millrace_batches_index_in_use")
		if err != nil {
			return err
		}
		has, err := m.gauge(ctx, "millrace_batches_index_outcomes")
		if err != nil {
			return err
		}
		if used == 1 && has >= float64(n) {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for the index of items: %w", ctx.Err())
		}
	}
}

// itemID is the id of a stored item. The statements compute the same.
func itemID(i int) string {
	sum := md5.Sum([]byte(strconv.Itoa(i)))
	return hex.EncodeToString(sum[:])
}

// storeItems stores items where the projector does, and in a table of Postgres. It returns when
// ClickHouse merges no more.
func storeItems(ctx context.Context, addr string, pool *pgxpool.Pool, n int) error {
	conn, err := clickhouse.Open(chOptions(addr))
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	defer conn.Close()
	for from := 0; from < n; from += storeStep {
		if err := conn.Exec(ctx, sqlStoreItems, from, min(storeStep, n-from)); err != nil {
			return fmt.Errorf("store items in clickhouse: %w", err)
		}
	}
	if _, err := pool.Exec(ctx, fmt.Sprintf(sqlPlainItems, n)); err != nil {
		return fmt.Errorf("store items in Postgres: %w", err)
	}
	return merged(ctx, conn)
}

// merged waits until ClickHouse merges no items.
func merged(ctx context.Context, conn driver.Conn) error {
	for still := 0; still < 5; still++ {
		var merges uint64
		err := conn.QueryRow(ctx, "SELECT count() FROM system.merges WHERE table = 'item_outcomes'").Scan(&merges)
		if err != nil {
			return fmt.Errorf("look whether clickhouse merges: %w", err)
		}
		if merges > 0 {
			still = 0
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
