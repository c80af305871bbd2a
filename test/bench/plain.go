package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
	"github.com/millrace-io/millrace/test/plain"
)

// floorRows is how many rows the floors insert at once.
const floorRows = 40_000

// readPlain is the loop that anyone would write first: pull, decode, insert,
// acknowledge, in one goroutine with the usual libraries.
func readPlain(ctx context.Context, cfg partConfig) error {
	conn, err := clickhouse.Open(chOptions(cfg.ClickHouse))
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	defer conn.Close()
	nc, js, err := dial(cfg.NATS)
	if err != nil {
		return err
	}
	defer nc.Close()
	c, err := js.CreateConsumer(ctx, stream.Events, jetstream.ConsumerConfig{
		Durable: "plain", AckPolicy: jetstream.AckAllPolicy, MaxAckPending: -1,
	})
	if err != nil {
		return fmt.Errorf("create consumer: %w", err)
	}
	begin := time.Now()
	messages, err := c.Messages(jetstream.PullMaxMessages(floorRows))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	defer messages.Stop()
	for left := cfg.Events; left > 0; {
		n := min(left, floorRows)
		if err := plainBatch(ctx, conn, messages, n); err != nil {
			return err
		}
		left -= n
	}
	fmt.Println(time.Since(begin).Seconds())
	return nil
}

func plainBatch(ctx context.Context, conn driver.Conn, messages jetstream.MessagesContext, n int) error {
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO plain")
	if err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	var last jetstream.Msg
	for range n {
		if last, err = messages.Next(); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if err := plain.Append(batch, last); err != nil {
			return err
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	return last.Ack()
}
