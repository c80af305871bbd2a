package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ClickHouse/ch-go"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// readLean is the fastest reader that is known of, with no promise at all: raw
// pull requests without acknowledgements, the decoder made for the schema,
// native columns, and decoding beside inserting.
func readLean(ctx context.Context, cfg partConfig) error {
	nc, js, err := dial(cfg.NATS)
	if err != nil {
		return err
	}
	defer nc.Close()
	db, err := ch.Dial(ctx, ch.Options{
		Address: cfg.ClickHouse, Database: "millrace", User: "default",
		Password: chPassword, ReadTimeout: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	defer db.Close()
	begin := time.Now()
	messages, err := pull(ctx, nc, js)
	if err != nil {
		return err
	}
	full, free := make(chan *schema.EventBlock), make(chan *schema.EventBlock, 2)
	free <- schema.NewEventBlock()
	free <- schema.NewEventBlock()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { defer close(full); return leanDecode(ctx, messages, cfg.Events, free, full) })
	g.Go(func() error { return leanInsert(ctx, db, full, free) })
	if err := g.Wait(); err != nil {
		return err
	}
	fmt.Println(time.Since(begin).Seconds())
	return nil
}

// pull keeps the server sending.
func pull(ctx context.Context, nc *nats.Conn, js jetstream.JetStream) (<-chan *nats.Msg, error) {
	_, err := js.CreateConsumer(ctx, stream.Events, jetstream.ConsumerConfig{
		Name: "lean", AckPolicy: jetstream.AckNonePolicy, MaxWaiting: 8, InactiveThreshold: time.Hour,
	})
	if err != nil {
		return nil, fmt.Errorf("create consumer: %w", err)
	}
	const ask = 16_384
	messages, inbox, received := make(chan *nats.Msg, 4*ask), nats.NewInbox(), 0
	request, err := json.Marshal(map[string]any{"batch": ask, "expires": time.Minute.Nanoseconds()})
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	more := func() error {
		return nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream.Events+".lean", inbox, request)
	}
	sub, err := nc.Subscribe(inbox, func(m *nats.Msg) {
		if received++; received%ask == 0 {
			_ = more() // a lost connection ends the messages, and so the run
		}
		messages <- m
	})
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	for range 2 {
		if err := more(); err != nil {
			return nil, fmt.Errorf("pull: %w", err)
		}
	}
	return messages, nil
}

func leanDecode(
	ctx context.Context, messages <-chan *nats.Msg, n int, free <-chan *schema.EventBlock,
	full chan<- *schema.EventBlock,
) error {
	var record event.Record
	var none event.Identity
	now := time.Now().UnixNano()
	block := <-free
	for i := range n {
		select {
		case m := <-messages:
			if invalid := event.Decode(m.Data, &record); invalid != nil {
				return invalid
			}
			block.Append(uint64(i+1), now, &record, none)
		case <-ctx.Done():
			return ctx.Err()
		}
		if block.Rows() < floorRows && i+1 < n {
			continue
		}
		select {
		case full <- block:
		case <-ctx.Done():
			return ctx.Err()
		}
		if i+1 == n {
			return nil
		}
		select {
		case block = <-free:
			block.Reset()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func leanInsert(
	ctx context.Context, db *ch.Client, full <-chan *schema.EventBlock, free chan<- *schema.EventBlock,
) error {
	for block := range full {
		input := block.Input()
		if err := db.Do(ctx, ch.Query{Body: input.Into("lean"), Input: input}); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		free <- block
	}
	return nil
}
