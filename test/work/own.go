package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/client"
)

const (
	ownQueue  = "parcels"
	ownBatch  = 20       // items that are added together
	rolledKey = "rolled" // begins the keys of items that are rolled back
)

// own are items of a user-defined queue, each with a key of its own.
type own struct {
	n     int
	lease time.Duration
	in    *installation

	mu    sync.Mutex
	added map[int64]string // acknowledged: id → key
}

func newOwn(cfg config, in *installation) *own {
	return &own{n: cfg.items, lease: cfg.lease, in: in, added: map[int64]string{}}
}

// inVain tells which pieces fail at first: one of ten that has a key.
func inVain(p piece) bool { return p.stage == ownQueue && strings.HasSuffix(p.filename, "0") }

func (o *own) queues() []string { return []string{ownQueue} }

func (o *own) pieces() int { return o.n }

// add makes the queue, and adds the items in turn over HTTP, over NATS, and in
// transactions of Postgres.
func (o *own) add(ctx context.Context) error {
	queue := map[string]any{
		"name": ownQueue, "max_attempts": 0, "lease_s": o.lease.Seconds(),
		"backoff_s": []float64{1},
	}
	if err := o.in.insist(ctx, http.MethodPost, "/queues", queue, nil); err != nil {
		return err
	}
	nc, err := nats.Connect("nats://"+o.in.nats, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.ReconnectBufSize(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	pool, err := o.in.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	ways := []way{o.overHTTP, overNATS(nc), inTransaction(pool)}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for from := 0; from < o.n; from += ownBatch {
		var keys []string
		for i := from; i < min(from+ownBatch, o.n); i++ {
			keys = append(keys, fmt.Sprintf("k%07d", i))
		}
		g.Go(func() error { return o.insist(ctx, ways[from/ownBatch%len(ways)], keys) })
	}
	return g.Wait()
}

// way adds items with these keys, and returns their ids. After an error they may
// be there all the same, but do not come later.
type way func(ctx context.Context, keys []string) ([]int64, error)

// insist adds items until it knows that they are there, and have been added once.
func (o *own) insist(ctx context.Context, add way, keys []string) error {
	for {
		ids, err := add(ctx, keys)
		if err != nil {
			if refused(err) || ctx.Err() != nil {
				return err
			}
			if ids, err = o.find(ctx, keys); err != nil {
				return err
			}
		}
		switch len(ids) {
		case len(keys):
			o.mu.Lock()
			defer o.mu.Unlock()
			for i, id := range ids {
				o.added[id] = keys[i]
			}
			return nil
		case 0:
			sleep(ctx, 100*time.Millisecond)
		default:
			return fmt.Errorf("of the items from %s on, %d are there, and %d were added together", keys[0],
				len(ids), len(keys))
		}
	}
}

// find returns the ids of the items with these keys that are there.
func (o *own) find(ctx context.Context, keys []string) (ids []int64, err error) {
	for _, key := range keys {
		var page struct{ Items []struct{ ID int64 } }
		if err := o.in.insist(ctx, http.MethodGet, "/queues/"+ownQueue+"/items?key="+key, nil, &page); err != nil {
			return nil, err
		}
		for _, it := range page.Items {
			ids = append(ids, it.ID)
		}
	}
	return ids, nil
}

func (o *own) overHTTP(ctx context.Context, keys []string) (ids []int64, err error) {
	items := make([]map[string]any, len(keys))
	for i, key := range keys {
		items[i] = map[string]any{"key": key, "payload": map[string]string{"key": key}, "priority": i % 10}
	}
	var answer struct{ Added []struct{ ID int64 } }
	err = o.in.ask(ctx, http.MethodPost, "/queues/"+ownQueue+"/items", map[string]any{"items": items}, &answer)
	for _, it := range answer.Added {
		ids = append(ids, it.ID)
	}
	return ids, err
}

// enqueueWait is longer than a server tries.
const enqueueWait = 20 * time.Second

func overNATS(nc *nats.Conn) way {
	return func(ctx context.Context, keys []string) ([]int64, error) {
		ctx, cancel := context.WithTimeout(ctx, enqueueWait)
		defer cancel()
		added, err := client.Enqueue(ctx, nc, ownQueue, newItems(keys)...)
		return idsOf(added), err
	}
}

var errRollBack = errors.New("rolled back")

// inTransaction adds items in a transaction, after one that adds others and is
// rolled back.
func inTransaction(pool *pgxpool.Pool) way {
	return func(ctx context.Context, keys []string) (ids []int64, err error) {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := client.EnqueueTx(ctx, tx, ownQueue, client.NewItem{Key: rolledKey + keys[0]})
			return cmp.Or(err, errRollBack)
		})
		if !errors.Is(err, errRollBack) {
			return nil, err
		}
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			added, err := client.EnqueueTx(ctx, tx, ownQueue, newItems(keys)...)
			ids = idsOf(added)
			return err
		})
		return ids, err
	}
}

func newItems(keys []string) []client.NewItem {
	items := make([]client.NewItem, len(keys))
	for i, key := range keys {
		items[i] = client.NewItem{Key: key, Payload: map[string]string{"key": key}, Priority: i % 10}
	}
	return items
}

func idsOf(added []client.Enqueued) (ids []int64) {
	for _, a := range added {
		ids = append(ids, a.ID)
	}
	return ids
}

// depth is GET /queues/{queue}.
type depth struct {
	Depth  int
	States map[string]int
}

func (o *own) depth(ctx context.Context) (d depth, err error) {
	return d, o.in.ask(ctx, http.MethodGet, "/queues/"+ownQueue, nil, &d)
}

func (o *own) done(ctx context.Context) (n, of int, err error) {
	d, err := o.depth(ctx)
	return d.States["done"], o.n, err
}

// check looks at the items, their history and the figures of the queue.
func (o *own) check(ctx context.Context) error {
	pool, err := o.in.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	rows, err := pool.Query(ctx, `SELECT i.id, i.key, i.status::text,
		(SELECT count(*) FROM millrace.history AS h WHERE h.item_id = i.id AND h.move = 'done')
		FROM millrace.item AS i`)
	if err != nil {
		return fmt.Errorf("read the items: %w", err)
	}
	defer rows.Close()
	var errs []error
	lost := len(o.added)
	for rows.Next() {
		var id int64
		var key, status string
		var ends int
		if err := rows.Scan(&id, &key, &status, &ends); err != nil {
			return fmt.Errorf("read the items: %w", err)
		}
		switch {
		case o.added[id] != key:
			errs = append(errs, fmt.Errorf("nobody was told of item %d with the key %s", id, key))
		case status != "done" || ends != 1:
			errs = append(errs, fmt.Errorf("item %d is %s, and was done %d times", id, status, ends))
		}
		lost--
	}
	if lost != 0 || len(o.added) != o.n {
		errs = append(errs, fmt.Errorf("%d items were acknowledged, not %d, and %d are lost", len(o.added), o.n, lost))
	}
	d, err := o.depth(ctx)
	for state, n := range d.States {
		if want := map[bool]int{true: o.n}[state == "done"]; n != want {
			errs = append(errs, fmt.Errorf("the queue counts %d %s, not %d", n, state, want))
		}
	}
	return errors.Join(append(errs, rows.Err(), err)...)
}
