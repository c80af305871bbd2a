package backup_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/backup"
	"github.com/millrace-io/millrace/internal/backup/set"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

var (
	engine   embeddedtest.ClickHouse
	pgEngine embeddedtest.Postgres
)

func TestMain(m *testing.M) { os.Exit(embeddedtest.Main(m, &pgEngine, &engine)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pretended does what a projector does with the positions of its groups, and as fast as it can: it decides a batch,
// writes its rows, and decides the next.
type pretended struct {
	kv     jetstream.KeyValue
	db     *sql.DB
	groups uint32
}

func (p *pretended) batch(ctx context.Context, g uint32, from, to uint64) error {
	record := fmt.Sprintf(`{"from":%d,"to":%d,"owner":"a","at":"2026-11-27T00:00:00Z"}`, from, to)
	if _, err := p.kv.PutString(ctx, slots.Group{ID: g}.Key(), record); err != nil {
		return err
	}
	// A slot of the group, which the first byte of an article tells.
	if _, err := p.db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO events (seq, occurred_at, article_hash)
		SELECT number, toDateTime64('2026-11-27 00:00:00', 9), concat(char(%d), repeat('x', 31)) FROM numbers(%d, %d)`,
		g, from+1, to-from)); err != nil {
		return err
	}
	_, err := p.db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO funnel (width, bucket, slot_group, events, seq)
		VALUES (86400, '2026-11-27 00:00:00', %d, %d, %d)`, g, to, to))
	return err
}

// TestPositions holds 1, 2 and 3: however fast batches are decided, each group's rows in the set are those up to
// some sequence of its last batch, none is behind it, and none is missing before the batch.
func TestPositions(t *testing.T) {
	ctx := t.Context()
	nc := embeddedtest.Connect(t, embeddedtest.NATS(t))
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, stream.Ensure(ctx, js, stream.Config{}))
	kv, err := js.KeyValue(ctx, stream.Checkpoints)
	must(t, err)
	options := engine.Database(t)
	p := &pretended{kv: kv, db: driver.OpenDB(options), groups: 2}
	defer p.db.Close()
	_, err = kv.PutString(ctx, slots.Key, fmt.Sprintf(`{"slot_groups":%d}`, p.groups))
	must(t, err)
	writing, stop := context.WithCancel(context.Background())
	ended := make(chan error, p.groups)
	for g := range p.groups {
		go func() {
			for from := uint64(0); writing.Err() == nil; from += 3 {
				if err := p.batch(context.WithoutCancel(writing), g, from, from+3); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	in := backup.Installation{NATS: nc, ClickHouse: options, Log: embeddedtest.Log(t)}
	mustBeNewest(t, js, nil)
	var targets []set.Target
	for i := range 3 {
		target := set.Folder(filepath.Join(t.TempDir(), fmt.Sprint(i)))
		targets = append(targets, target)
		m, err := backup.Save(ctx, in, target, "test", nil)
		must(t, err)
		mustBeNewest(t, js, m)
		if _, err := backup.Save(ctx, in, target, "test", nil); err == nil {
			t.Error("a backup is taken to the place of another")
		}
		mustBeNewest(t, js, m)
	}
	stop()
	for range p.groups {
		must(t, <-ended)
	}
	for _, target := range targets {
		mustFit(t, target, p.groups)
	}
}

// mustBeNewest compares the gauge with the newest backup that succeeded; nil: none has.
func mustBeNewest(t *testing.T, js jetstream.JetStream, m *set.Manifest) {
	t.Helper()
	var ages []float64
	must(t, backup.Gauges(js).Read(t.Context(), func(_ *sampler.Gauge, v float64, _ ...string) { ages = append(ages, v) }))
	if m == nil {
		if len(ages) > 0 {
			t.Errorf("no backup is %v s old", ages)
		}
		return
	}
	latest := time.Since(m.Begun.Time).Seconds()
	if len(ages) != 1 || ages[0] > latest || ages[0] < time.Since(m.Ended.Time).Seconds() {
		t.Errorf("the newest backup is %v s old, want at most %v", ages, latest)
	}
}

// mustFit restores a set, and compares its tables with its positions.
func mustFit(t *testing.T, target set.Target, groups uint32) {
	t.Helper()
	ctx := t.Context()
	r, err := backup.Open(ctx, target, nil)
	must(t, err)
	in := backup.Installation{
		NATS: embeddedtest.Connect(t, embeddedtest.NATS(t)), ClickHouse: engine.Empty(t), Log: embeddedtest.Log(t),
	}
	must(t, backup.Restore(ctx, in, r, 1))
	if err := backup.Restore(ctx, in, r, 1); err == nil {
		t.Error("an installation is restored over another")
	}
	js, err := jetstream.New(in.NATS)
	must(t, err)
	kv, err := js.KeyValue(ctx, stream.Checkpoints)
	must(t, err)
	db := driver.OpenDB(in.ClickHouse)
	defer db.Close()
	for g := range groups {
		e, err := kv.Get(ctx, slots.Group{ID: g}.Key())
		must(t, err)
		at, err := funnel.ParseCheckpoint(e.Value())
		must(t, err)
		var rows, whole, last, folded uint64
		must(t, db.QueryRowContext(ctx, `SELECT count(), countIf(seq <= $2), max(seq) FROM events
			WHERE reinterpretAsUInt8(article_hash) = $1`, g, at.From).Scan(&rows, &whole, &last))
		must(t, db.QueryRowContext(ctx, "SELECT max(seq) FROM funnel WHERE slot_group = $1", g).Scan(&folded))
		t.Logf("group %d is at (%d, %d]: %d rows up to %d, and the funnel up to %d", g, at.From, at.To, rows, last, folded)
		if whole != at.From || last > at.To || folded < at.From || folded > at.To {
			t.Errorf("group %d does not fit: the batch (%d, %d], %d rows up to its begin, the last row %d, the funnel %d", g,
				at.From, at.To, whole, last, folded)
		}
	}
}
