package backfill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/ingest/history"
	"github.com/millrace-io/millrace/schemas/stream"
)

// position is how far a table has come: all rows before a time are done, and
// some of it.
type position struct {
	At   time.Time `json:"at"`
	Rows int64     `json:"rows"` // done in all runs, for people
	Same int64     `json:"same"` // of these, rows of the time At
}

// after returns the position that a row completes.
func (p position) after(row *history.Row) position {
	if !row.At.Equal(p.At) {
		p.At, p.Same = row.At, 0
	}
	return position{p.At, p.Rows + 1, p.Same + 1}
}

// reread returns the position before the rows of its time, which are read
// again when a run goes on.
func (p position) reread() position { return position{p.At, p.Rows - p.Same, 0} }

// positions are kept in a bucket of the broker, one for each table and begin.
type positions struct{ bucket jetstream.KeyValue }

func openPositions(ctx context.Context, js jetstream.JetStream) (*positions, error) {
	events, err := js.Stream(ctx, stream.Events)
	if err != nil {
		return nil, fmt.Errorf("backfill: look for the stream %s: %w", stream.Events, err)
	}
	bucket, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: stream.Backfills, Description: "how far backfills have come", History: 1,
		Replicas: events.CachedInfo().Config.Replicas, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return nil, fmt.Errorf("backfill: create bucket %s: %w", stream.Backfills, err)
	}
	return &positions{bucket}, nil
}

func key(src *history.Source, span history.Span) string {
	sum := sha256.Sum256([]byte(src.Address() + "\x00" + span.From.UTC().Format(time.RFC3339Nano)))
	return src.Name + "." + hex.EncodeToString(sum[:8])
}

func (p *positions) load(ctx context.Context, src *history.Source, span history.Span) (position, error) {
	var at position
	entry, err := p.bucket.Get(ctx, key(src, span))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return at, nil
	}
	if err != nil {
		return at, fmt.Errorf("load the position: %w", err)
	}
	if err := json.Unmarshal(entry.Value(), &at); err != nil {
		return at, fmt.Errorf("load the position: %w", err)
	}
	return at, nil
}

func (p *positions) save(ctx context.Context, src *history.Source, span history.Span, at position) error {
	text, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("save the position: %w", err)
	}
	if _, err := p.bucket.Put(ctx, key(src, span), text); err != nil {
		return fmt.Errorf("save the position: %w", err)
	}
	return nil
}
