package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/client"
)

const (
	parcelQueue = "parcels" // user-defined
	parcelBatch = 20        // items that are added together
	rolledKey   = "rolled"  // begins the keys of items that are rolled back
	enqueueWait = 20 * time.Second
)

// way adds items with these keys, and returns their ids. After an error they may be there all
// the same, but do not come later: it waits longer than a server tries.
type way func(ctx context.Context, keys []string) ([]int64, error)

// add adds items with these numbers, in turn over HTTP, over NATS, and in transactions of Postgres.
func (w *workers) add(ctx context.Context, from, to int) error {
	nc, err := connect(w.workURL)
	if err != nil {
		return err
	}
	defer nc.Close()
	pool, err := pgxpool.New(ctx, w.sab.cluster.postgresURL(w.sab.cluster.shared.postgres[0].listen))
	if err != nil {
		return err
	}
	defer pool.Close()
	ways := []way{w.overHTTP, overNATS(nc), inTransaction(pool)}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for ; from < to; from += parcelBatch {
		var keys []string
		for i := from; i < min(from+parcelBatch, to); i++ {
			keys = append(keys, fmt.Sprintf("k%07d", i))
		}
		add := ways[from/parcelBatch%len(ways)]
		g.Go(func() error { w.addAll(ctx, add, keys); return nil })
	}
	return g.Wait()
}

// addAll adds items until it knows that they are there, and have been added once.
func (w *workers) addAll(ctx context.Context, add way, keys []string) {
	for ctx.Err() == nil {
		ids, err := add(ctx, keys)
		if err != nil {
			wait(ctx, time.Second) // what was under way to Postgres is there
			ids = w.find(ctx, keys)
		}
		switch len(ids) {
		case len(keys):
			w.mu.Lock()
			defer w.mu.Unlock()
			for i, id := range ids {
				w.added[id] = keys[i]
			}
			return
		case 0:
		default:
			w.notes.fail("of the items from %s on, %d are there, and %d were added together", keys[0], len(ids), len(keys))
			return
		}
	}
}

// find returns the ids of the items with these keys that are there.
func (w *workers) find(ctx context.Context, keys []string) (ids []int64) {
	for _, key := range keys {
		var page struct{ Items []struct{ ID int64 } }
		_ = backoff.Do(ctx, func() error { // until ctx ends
			return w.get(ctx, "/queues/"+parcelQueue+"/items?key="+key, &page)
		}, nil)
		for _, it := range page.Items {
			ids = append(ids, it.ID)
		}
	}
	return ids
}

func (w *workers) overHTTP(ctx context.Context, keys []string) (ids []int64, err error) {
	var items []map[string]any
	for _, it := range newItems(keys) {
		items = append(items, map[string]any{"key": it.Key, "payload": it.Payload, "priority": it.Priority})
	}
	var answer struct{ Added []struct{ ID int64 } }
	status, err := w.send(ctx, http.MethodPost, "/queues/"+parcelQueue+"/items", map[string]any{"items": items}, &answer)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("status %d", status)
	}
	for _, it := range answer.Added {
		ids = append(ids, it.ID)
	}
	return ids, err
}

func overNATS(nc *nats.Conn) way {
	return func(ctx context.Context, keys []string) ([]int64, error) {
		ctx, cancel := context.WithTimeout(ctx, enqueueWait)
		defer cancel()
		added, err := client.Enqueue(ctx, nc, parcelQueue, newItems(keys)...)
		return idsOf(added), err
	}
}

var errRollBack = errors.New("rolled back")

// inTransaction adds items in a transaction, after one that adds others and is
// rolled back.
func inTransaction(pool *pgxpool.Pool) way {
	return func(ctx context.Context, keys []string) (ids []int64, err error) {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := client.EnqueueTx(ctx, tx, parcelQueue, client.NewItem{Key: rolledKey + keys[0]})
			return cmp.Or(err, errRollBack)
		})
		if !errors.Is(err, errRollBack) {
			return nil, err
		}
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			added, err := client.EnqueueTx(ctx, tx, parcelQueue, newItems(keys)...)
			ids = idsOf(added)
			return err
		})
		return ids, err
	}
}

func newItems(keys []string) (items []client.NewItem) {
	for i, key := range keys {
		items = append(items, client.NewItem{Key: key, Payload: map[string]string{"key": key}, Priority: i % 10})
	}
	return items
}

func idsOf(added []client.Enqueued) (ids []int64) {
	for _, a := range added {
		ids = append(ids, a.ID)
	}
	return ids
}

// left is an error that says what is still to be done.
func (w *workers) left(ctx context.Context) error {
	w.mu.Lock()
	added := len(w.added)
	w.mu.Unlock()
	var done int
	err := w.dsn.read(ctx, "SELECT count(*) FROM millrace.item WHERE status = 'done'", []any{&done}, func() error { return nil })
	if err == nil && (added < w.items || done < w.items) {
		err = fmt.Errorf("of %d items %d are added and %d done", w.items, added, done)
	}
	return err
}

// compareItems looks at the items, their history and the figures of the queue.
func (w *workers) compareItems(ctx context.Context, v *workersVerdict) error {
	var id int64
	var key, status string
	var ends int
	lost := len(w.added)
	err := w.dsn.read(ctx, `SELECT i.id, i.key, i.status::text,
		(SELECT count(*) FROM millrace.history AS h WHERE h.item_id = i.id AND h.move = 'done') FROM millrace.item AS i`,
		[]any{&id, &key, &status, &ends}, func() error {
			switch {
			case w.added[id] != key:
				v.wrong("nobody was told of item %d with the key %s", id, key)
			case status != "done" || ends != 1:
				v.wrong("item %d is %s, and was done %d times", id, status, ends)
			}
			lost--
			return nil
		})
	if err != nil {
		return fmt.Errorf("read the items: %w", err)
	}
	if lost != 0 || len(w.added) != w.items {
		v.wrong("%d items were acknowledged, not %d, and %d are lost", len(w.added), w.items, lost)
	}
	var queue struct{ States map[string]int }
	err = backoff.Do(ctx, func() error { return w.get(ctx, "/queues/"+parcelQueue, &queue) }, nil)
	for state, n := range queue.States {
		if n != btoi(state == "done")*w.items {
			v.wrong("the queue counts %d items that are %s", n, state)
		}
	}
	return err
}
