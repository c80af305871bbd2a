package backfill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/ingest/history"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

// cursor is how far a table has come: all rows before a time are done, and
// some of it.
type cursor struct {
	At   time.Time `json:"at"`
	Rows int64     `json:"rows"` // done in all runs, for people
	Same int64     `json:"same"` // of these, rows of the time At
}

// after returns the cursor that a row completes.
func (c cursor) after(row *history.Row) cursor {
	if !row.At.Equal(c.At) {
		c.At, c.Same = row.At, 0
	}
	return cursor{c.At, c.Rows + 1, c.Same + 1}
}

// reread returns the cursor before the rows of its time, which are read
// again when a run goes on.
func (c cursor) reread() cursor { return cursor{c.At, c.Rows - c.Same, 0} }

// cursors are kept in a bucket of the broker, one for each table and begin.
type cursors struct {
	bucket jetstream.KeyValue
	log    *slog.Logger
}

// While the broker is away, a cursor is asked for and saved again. Each attempt
// has askLimit.
const askLimit = 2 * time.Second

var backoff = retry.Backoff{First: 50 * time.Millisecond, Most: 2 * time.Second}

func openCursors(ctx context.Context, js jetstream.JetStream, log *slog.Logger) (*cursors, error) {
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
	return &cursors{bucket, log}, nil
}

func key(src *history.Source, span history.Span) string {
	sum := sha256.Sum256([]byte(src.Address() + "\x00" + span.From.UTC().Format(time.RFC3339Nano)))
	return src.Name + "." + hex.EncodeToString(sum[:8])
}

// load returns the zero cursor when there is none. It waits for a broker that is
// away until ctx ends.
func (c *cursors) load(ctx context.Context, src *history.Source, span history.Span) (at cursor, err error) {
	err = c.ask(ctx, "load the cursor", func(ctx context.Context) error {
		entry, err := c.bucket.Get(ctx, key(src, span))
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			return nil
		case err != nil:
			return err
		}
		if err := json.Unmarshal(entry.Value(), &at); err != nil {
			return retry.Stop(err)
		}
		return nil
	})
	return at, err
}

// save waits for a broker that is away until ctx ends.
func (c *cursors) save(ctx context.Context, src *history.Source, span history.Span, at cursor) error {
	text, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("save the cursor: %w", err)
	}
	return c.ask(ctx, "save the cursor", func(ctx context.Context) error {
		_, err := c.bucket.Put(ctx, key(src, span), text)
		return err
	})
}

// ask asks the broker until it answers, or ctx ends.
func (c *cursors) ask(ctx context.Context, what string, do func(context.Context) error) error {
	err := backoff.Do(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		return do(ctx)
	}, func(err error, wait time.Duration) {
		c.log.Warn("asking NATS again", "to", what, "wait", wait, "error", err)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
