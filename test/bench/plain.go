package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// floorRows is how many rows the floors insert at once.
const floorRows = 40_000

// plainEvent is what encoding/json makes of an event.
type plainEvent struct {
	ArticleURL     string    `json:"article_url"`
	SourceName     string    `json:"source_name"`
	Stage          string    `json:"stage"`
	OccurredAt     time.Time `json:"occurred_at"`
	ServiceName    string    `json:"service_name"`
	IdempotencyKey string    `json:"idempotency_key"`
	TraceID        string    `json:"trace_id"`
	CanonicalURL   string    `json:"canonical_url"`
	SchemaVersion  uint16    `json:"metadata_schema_version"`

	Metadata json.RawMessage `json:"metadata"`
}

type plainMetadata struct {
	QualityScore *float64 `json:"quality_score"`
	Topics       []string `json:"topics"`
	ModelVersion string   `json:"model_version"`
	ContentType  string   `json:"content_type"`
	Channel      string   `json:"channel"`
}

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
		if err := plainRow(batch, last); err != nil {
			return err
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	return last.Ack()
}

func plainRow(batch driver.Batch, m jetstream.Msg) error {
	at, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	var e plainEvent
	if err := json.Unmarshal(m.Data(), &e); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	var meta plainMetadata
	if err := json.Unmarshal(e.Metadata, &meta); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return batch.Append(at.Sequence.Stream, e.OccurredAt, at.Timestamp, e.Stage, e.SourceName, e.ServiceName, e.ArticleURL,
		e.CanonicalURL, e.TraceID, e.IdempotencyKey, string(e.Metadata), e.SchemaVersion, meta.QualityScore, meta.Topics,
		meta.ModelVersion, meta.ContentType, meta.Channel)
}
