package plain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	contract "github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Config of a Consumer.
type Config struct {
	Durable   string        // of the consumer, which all processes share
	Table     string        // with the columns of Append and the identity
	BatchRows int           // of an insert, at most
	BatchWait time.Duration // for a batch to fill
	AckWait   time.Duration // until what is not acknowledged is delivered again
	Stages    contract.Stages
	// Inserted is called between an insert of some rows and its
	// acknowledgement; nil: not.
	Inserted func()
}

// insertLimit is how long an insert may take, and answers of the broker.
const insertLimit = 10 * time.Second

// Consumer brings the events into a table, beside others of the same name:
// each message is acknowledged by itself, after its insert.
type Consumer struct {
	cfg  Config
	js   jetstream.JetStream
	conn driver.Conn
	log  *slog.Logger
}

// New starts nothing.
func New(cfg Config, js jetstream.JetStream, conn driver.Conn, log *slog.Logger) *Consumer {
	return &Consumer{cfg: cfg, js: js, conn: conn, log: log}
}

// Run consumes until ctx ends, whatever fails meanwhile.
func (c *Consumer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.consume(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("consume", "error", err)
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (c *Consumer) consume(ctx context.Context) error {
	messages, err := c.js.CreateOrUpdateConsumer(ctx, stream.Events, jetstream.ConsumerConfig{
		Durable: c.cfg.Durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.cfg.AckWait,
		MaxAckPending: 4 * c.cfg.BatchRows,
	})
	if err != nil {
		return fmt.Errorf("create consumer: %w", err)
	}
	c.log.Info("consuming")
	for ctx.Err() == nil {
		if err := c.batch(messages); err != nil {
			return err
		}
	}
	return nil
}

// batch carries one batch through, even when the consumer is told to end.
func (c *Consumer) batch(messages jetstream.Consumer) error {
	fetched, err := messages.Fetch(c.cfg.BatchRows, jetstream.FetchMaxWait(c.cfg.BatchWait))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	var got []jetstream.Msg
	for m := range fetched.Messages() {
		got = append(got, m)
	}
	if len(got) == 0 {
		return fetched.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), insertLimit)
	defer cancel()
	rows, err := c.insert(ctx, got)
	if err != nil {
		for _, m := range got {
			err = errors.Join(err, m.NakWithDelay(time.Second))
		}
		return err
	}
	if c.cfg.Inserted != nil && rows > 0 {
		c.cfg.Inserted()
	}
	for _, m := range got {
		err = errors.Join(err, m.Ack())
	}
	return err
}

// insert writes the rows of the messages that break no rule.
func (c *Consumer) insert(ctx context.Context, messages []jetstream.Msg) (rows int, err error) {
	batch, err := c.conn.PrepareBatch(ctx, "INSERT INTO "+c.cfg.Table)
	if err != nil {
		return 0, fmt.Errorf("insert: %w", err)
	}
	defer batch.Close()
	for _, m := range messages {
		id, ok := c.identity(m)
		if !ok {
			continue // a dead letter, for those who want it
		}
		if err := Append(batch, m, string(id[:])); err != nil {
			return 0, fmt.Errorf("insert: %w", err)
		}
	}
	if err := batch.Send(); err != nil {
		return 0, fmt.Errorf("insert: %w", err)
	}
	return batch.Rows(), nil
}

// identity is that of an event which keeps the rules.
func (c *Consumer) identity(m jetstream.Msg) (id contract.Identity, ok bool) {
	at, err := m.Metadata()
	var r contract.Record
	if err != nil || contract.Decode(m.Data(), &r) != nil || r.Validate(c.cfg.Stages, at.Timestamp, true) != nil {
		return id, false
	}
	return r.Identity(), true
}
