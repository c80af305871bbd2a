package client_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/client"
)

// A daemon works the items of a queue of shards until its context ends.
func ExampleWork_shards() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	load := func(_ context.Context, filename string, shard int) error {
		log.Print(filename, shard)
		return nil
	}
	err = client.Work(ctx, nc, "shard-worker", func(ctx context.Context, item client.Item) error {
		return load(ctx, item.Filename, item.Shard)
	}, client.WorkConfig{Concurrency: 50})
	if err != nil {
		log.Fatal(err)
	}
}

// mail is the payload of the queue mail.
type mail struct {
	To string `json:"to"`
}

var errNoAddress = errors.New("no such address")

func sendMail(_ context.Context, m mail) error {
	log.Print(m.To)
	return nil
}

// A daemon works the items of a user-defined queue until its context ends.
func ExampleWork() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	err = client.Work(ctx, nc, "mail", func(ctx context.Context, item client.Item) error {
		var m mail
		if err := json.Unmarshal(item.Payload, &m); err != nil {
			return client.Permanent(err) // no other attempt would mend it
		}
		err := sendMail(ctx, m)
		if errors.Is(err, errNoAddress) {
			return client.Permanent(err)
		}
		return err // tried again after the backoff of the queue
	}, client.WorkConfig{Concurrency: 50})
	if err != nil {
		log.Fatal(err)
	}
}

// crawl finds articles.
func crawl(_ context.Context, source json.RawMessage, progress func(string)) (articles int, err error) {
	progress("page 1 of " + string(source))
	return 47, nil
}

// A crawler works the runs of jobs, and says what they have come to.
func ExampleSetResult() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	err = client.Work(ctx, nc, "crawl", func(ctx context.Context, item client.Item) error {
		articles, err := crawl(ctx, item.Payload, func(at string) { client.Progress(ctx, at) })
		if err != nil {
			return err
		}
		return client.SetResult(ctx, map[string]int{"articles_count": articles})
	}, client.WorkConfig{Concurrency: 20})
	if err != nil {
		log.Fatal(err)
	}
}

// Items are added over NATS; those with a key once while it is live.
func ExampleEnqueue() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	added, err := client.Enqueue(ctx, nc, "mail",
		client.NewItem{Key: "order-17", Group: "shop", Payload: mail{To: "a@example.com"}},
		client.NewItem{Payload: mail{To: "b@example.com"}, Priority: 9, RunAt: time.Now().Add(time.Hour)},
	)
	if err != nil {
		log.Fatal(err)
	}
	log.Print(added[0].ID, added[0].Existing)
}

// An order and the mail about it are there both, or neither is.
func ExampleEnqueueTx() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "postgres://shop@127.0.0.1:5432/millrace")
	if err != nil {
		log.Fatal(err)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // or it is committed
	if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES (17)"); err != nil {
		log.Fatal(err)
	}
	_, err = client.EnqueueTx(ctx, tx, "mail", client.NewItem{Key: "order-17", Payload: mail{To: "a@example.com"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		log.Fatal(err)
	}
}

// SQL makes a Tx of a transaction of database/sql.
func ExampleSQL() {
	enqueue := func(ctx context.Context, tx *sql.Tx) error {
		_, err := client.EnqueueTx(ctx, client.SQL(tx), "mail", client.NewItem{Payload: mail{To: "a@example.com"}})
		return err
	}
	_ = enqueue
}
