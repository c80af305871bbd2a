package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/backup/set"
	"github.com/millrace-io/millrace/schemas/stream"

	tables "github.com/millrace-io/millrace/internal/backup/clickhouse"
)

// Installation is the servers of an installation. The connections are the caller's.
type Installation struct {
	NATS       *nats.Conn
	ClickHouse *clickhouse.Options
	Postgres   string // DSN; empty: it has none
	Log        *slog.Logger
}

// natsStore is the name under which the manifest has what the streams need.
const natsStore = "nats"

// natsInfo is what the manifest says of streams and positions.
type natsInfo struct {
	Server  string                `json:"server"`
	Streams map[string]StreamInfo `json:"streams"`
	// Records are the values of keys in the bucket of checkpoints that go with the tables.
	Records map[string]json.RawMessage `json:"records"`
}

// streamFile is where a stream is in a set.
func streamFile(name string) string { return "nats/" + name + ".snapshot" }

// saver takes one set.
type saver struct {
	Installation
	set   *set.Writer
	js    jetstream.JetStream
	db    *tables.Database
	info  natsInfo
	parts []tables.Part

	base    *set.Reader    // nil: the set is whole
	lasting *tables.Events // of the set
}

// Save takes a set of a running installation. With a base, events and files that are in it are not in the set again; nil:
// the set is whole.
func Save(
	ctx context.Context, in Installation, target set.Target, version string, base *set.Reader,
) (*set.Manifest, error) {
	if err := notRestoring(ctx, in.NATS); err != nil {
		return nil, err
	}
	w, err := set.Create(ctx, target, version, base)
	if err != nil {
		return nil, err
	}
	s := &saver{
		Installation: in, set: w, db: tables.Open(in.ClickHouse), base: base,
		info: natsInfo{
			Server: in.NATS.ConnectedServerVersion(), Streams: map[string]StreamInfo{},
			Records: map[string]json.RawMessage{},
		},
	}
	defer s.db.Close()
	if s.js, err = jetstream.New(in.NATS); err != nil {
		return nil, err
	}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	if err := w.Note(natsStore, s.info); err != nil {
		return nil, err
	}
	m, err := w.Finish(ctx)
	if err != nil {
		return nil, err
	}
	if err := noteLast(ctx, s.js, m); err != nil {
		in.Log.Warn("the backup is whole, but millrace_backup_age_seconds stays that of the one before", "error", err)
	}
	return m, nil
}

// run takes everything in the order of the promise.
func (s *saver) run(ctx context.Context) error {
	names, err := StreamNames(ctx, s.NATS)
	if err != nil {
		return err
	}
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	take := func(name string) error {
		if !left[name] {
			return nil
		}
		delete(left, name)
		return s.stream(ctx, name)
	}
	if err := s.readLayout(ctx); err != nil {
		return err
	}
	if err := take(stream.Batches); err != nil { // (6)
		return err
	}
	if err := s.moment(ctx, left); err != nil { // (5)
		return err
	}
	if err := s.tables(ctx); err != nil { // (2, 3, 4)
		return err
	}
	for _, name := range names {
		if err := take(name); err != nil {
			return err
		}
	}
	return errors.Join(s.checkPurged(ctx), s.checkLayout(ctx))
}

// stream copies a stream.
func (s *saver) stream(ctx context.Context, name string) error {
	c, err := BeginCopy(ctx, s.NATS, name)
	if err != nil {
		return err
	}
	return s.write(ctx, name, c)
}

func (s *saver) write(ctx context.Context, name string, c *StreamCopy) error {
	s.info.Streams[name] = c.StreamInfo
	return s.set.Write(ctx, streamFile(name), func(to io.Writer) error { return c.WriteTo(ctx, to) })
}

// purged returns an error when a stream has lost its begin up to behind a position, since the position was read.
func (s *saver) purged(ctx context.Context, name string, position uint64) error {
	st, err := s.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read stream %s: %w", name, err)
	}
	if first := st.CachedInfo().State.FirstSeq; first > position+1 {
		return fmt.Errorf("stream %s was purged up to sequence %d while it was copied, and its fold is at %d in the "+
			"backup: take the backup again", name, first-1, position)
	}
	return nil
}
