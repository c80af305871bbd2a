package itemindex

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.ClickHouse

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// patience is how long a test waits for what has to happen.
const patience = 2 * time.Minute

// world has what the projector would have written.
type world struct {
	*testing.T
	conn   driver.Conn
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	dir    string
	rng    *rand.Rand
	seq    uint64
	stored []Row
	index  *Index
}

func newWorld(t *testing.T) *world {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{T: t, dir: filepath.Join(t.TempDir(), "items"), rng: rand.New(rand.NewPCG(seed, 1))}
	w.js = natstest.Start(t, stream.Config{}).JetStream()
	var err error
	if w.kv, err = w.js.KeyValue(t.Context(), stream.Checkpoints); err != nil {
		t.Fatal(err)
	}
	if w.conn, err = clickhouse.Open(engine.Database(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.conn.Close() })
	return w
}

// run runs an index, as a new process would.
func (w *world) run() (stop func()) {
	w.Helper()
	var err error
	w.index, err = New(w.dir, Deps{
		JetStream: w.js, ClickHouse: w.conn, Registry: prometheus.NewRegistry(), Log: embeddedtest.Log(w),
	})
	if err != nil {
		w.Fatal(err)
	}
	return embeddedtest.Go(w, w.index.Run)
}

func (w *world) checkpoint(from, to uint64) {
	w.Helper()
	value, err := json.Marshal(position{From: from, To: to})
	if err == nil {
		_, err = w.kv.Put(w.Context(), stream.BatchesCheckpoint, value)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// ids are few, so that items share them.
const ids = 7

func id(i int) string { return fmt.Sprintf("item/%d", i) }

// store stores a batch or the outcomes of retries, as the projector does. What is called between
// sees the cut decided, and not stored.
func (w *world) store(between func()) {
	w.Helper()
	from := w.seq
	w.checkpoint(from, from+2)
	if between != nil {
		between()
	}
	for range 2 {
		w.seq++
		w.insert(w.some()...)
	}
	w.checkpoint(from, w.seq)
	w.checkpoint(w.seq, w.seq)
}

// some are the items of a batch, or the outcome of a retry of one of those before.
func (w *world) some() (rows []Row) {
	now := time.Unix(1_790_000_000+int64(w.seq), 123).UTC()
	if n := len(w.stored); n > 0 && w.rng.IntN(3) == 0 {
		r := w.stored[w.rng.IntN(n)]
		for _, other := range w.stored {
			if other.Job == r.Job && other.Batch == r.Batch && other.Position == r.Position {
				r.Version = max(r.Version, other.Version)
			}
		}
		r.Version, r.Status, r.Category, r.CreatedAt = r.Version+1, "success", "", now
		return []Row{r}
	}
	for i := range 1 + w.rng.IntN(4) {
		r := Row{
			Job: "proj_xyz-brand-0", Batch: uint32(w.seq), Position: uint32(i), Project: "proj_xyz", Platform: "tiktok",
			ContentID: id(w.rng.IntN(ids)), Permalink: "https://example.com/", Status: "error", Category: "network",
			Code: "TIMEOUT", Message: "it took long", ReadAt: now, CreatedAt: now,
		}
		if w.rng.IntN(3) > 0 {
			at := time.Unix(1_700_000_000+w.rng.Int64N(5), 5).UTC()
			r.CrawledAt = &at
		}
		rows = append(rows, r)
	}
	return rows
}

func (w *world) insert(rows ...Row) {
	w.Helper()
	b, err := w.conn.PrepareBatch(w.Context(), `INSERT INTO item_outcomes (job_id, batch_index, position, version, project_id,
		platform, content_id, permalink, crawled_at, fetch_status, error_category, error_code, fetch_error, read_at, created_at, seq)`)
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range rows {
		err := b.Append(r.Job, r.Batch, r.Position, r.Version, r.Project, r.Platform, r.ContentID, r.Permalink, r.CrawledAt,
			r.Status, r.Category, r.Code, r.Message, r.ReadAt, r.CreatedAt, w.seq)
		if err != nil {
			w.Fatal(err)
		}
	}
	if err := b.Send(); err != nil {
		w.Fatal(err)
	}
	w.stored = append(w.stored, rows...)
}

// check compares what the index says of an id with a recount, and tells whether it says anything.
func (w *world) check(i int) bool {
	w.Helper()
	got, ok := w.index.Lookup(w.Context(), id(i), 1000)
	if !ok {
		return false
	}
	var want []Row
	for _, r := range w.stored {
		if r.ContentID == id(i) {
			want = append(want, r)
		}
	}
	for _, r := range got {
		if !slices.ContainsFunc(want, func(w Row) bool { return reflect.DeepEqual(w, r) }) {
			w.Errorf("%+v was never stored", r)
		}
	}
	if len(got) != len(want) {
		w.Errorf("the index has %d outcomes of %s, and %d are stored", len(got), id(i), len(want))
	}
	return true
}

// await waits until the index answers for every id as the recount does.
func (w *world) await() {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for i := 0; i < ids; {
		if w.check(i) {
			i++
		} else if time.Sleep(5 * time.Millisecond); ctx.Err() != nil {
			w.Fatal("the index does not come to answer")
		}
	}
}

// TestExact stores batches and retries while it looks items up (invariant 1): the index has all of
// what is stored or says nothing, and it says nothing while a cut is under way.
func TestExact(t *testing.T) {
	slowtest.Mark(t)
	w := newWorld(t)
	for range 5 {
		w.store(nil)
	}
	stop := w.run()
	for n := range 30 {
		w.store(func() {
			if w.check(w.rng.IntN(ids)) {
				t.Error("the index answers while a cut is decided that may be stored")
			}
		})
		for range w.rng.IntN(8) {
			w.check(w.rng.IntN(ids))
			time.Sleep(time.Duration(w.rng.IntN(60)) * time.Millisecond)
		}
		if n%10 == 9 {
			w.await()
		}
	}
	stop()
	w.store(nil)
	w.run() // it goes on where it was
	w.await()
	if n := testutil.ToFloat64(w.index.metrics.rebuilds); n > 0 {
		t.Errorf("the index was made again %v times", n)
	}
	if got := testutil.ToFloat64(w.index.metrics.outcomes); got != float64(len(w.stored)) {
		t.Errorf("the index counts %v outcomes, and %d are stored", got, len(w.stored))
	}
}

// TestBaseline changes rows and takes them away behind the index (invariant 2).
func TestBaseline(t *testing.T) {
	slowtest.Mark(t)
	w := newWorld(t)
	for range 20 {
		w.store(nil)
	}
	w.run()
	w.await()
	changed := func(what string, change func()) {
		t.Helper()
		before := testutil.ToFloat64(w.index.metrics.rebuilds)
		change()
		for begin := time.Now(); testutil.ToFloat64(w.index.metrics.rebuilds) == before; time.Sleep(10 * time.Millisecond) {
			if time.Since(begin) > patience {
				t.Fatalf("%s: the index stays as it was", what)
			}
		}
		w.await()
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if err := w.conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}

	changed("other projects", func() {
		exec("ALTER TABLE item_outcomes UPDATE project_id = 'other' WHERE 1 SETTINGS mutations_sync = 2")
		for i := range w.stored {
			w.stored[i].Project = "other"
		}
	})
	changed("outcomes were removed", func() {
		gone := w.stored[0].Batch
		exec("DELETE FROM item_outcomes WHERE batch_index = ?", gone)
		w.stored = slices.DeleteFunc(w.stored, func(r Row) bool { return r.Batch == gone })
	})
	changed("the position went back", func() { w.checkpoint(w.seq/2, w.seq/2) })
	w.checkpoint(w.seq, w.seq)
	w.await()
	changed("outcomes are gone, as are the changes", func() {
		exec("TRUNCATE TABLE item_outcomes")
		w.stored = nil
	})
	w.store(nil)
	w.await()
	changed("outcomes were added", func() {
		w.seq++
		w.insert(w.some()...) // behind the projector's back
		w.seq--
	})
}

// TestDamage damages the files of the index, and removes them (invariant 3).
func TestDamage(t *testing.T) {
	slowtest.Mark(t)
	for _, harm := range []struct {
		name string
		do   func(t *testing.T, file string)
	}{
		{"garbage", func(t *testing.T, file string) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(text); i += 64 {
				text[i] ^= 0xff
			}
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		{"cut", func(t *testing.T, file string) {
			if err := os.Truncate(file, 100); err != nil {
				t.Fatal(err)
			}
		}},
		{"removed", func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for _, files := range []string{"*.sst", "MANIFEST-*", "OPTIONS-*"} {
			t.Run(harm.name+" "+files, func(t *testing.T) {
				w := newWorld(t)
				for range 10 {
					w.store(nil)
				}
				stop := w.run()
				w.await()
				stop()
				found, err := filepath.Glob(filepath.Join(w.dir, files))
				if err != nil || len(found) == 0 {
					t.Fatalf("there are no files: %v", err)
				}
				for _, file := range found {
					harm.do(t, file)
				}
				w.store(nil)
				w.run()
				w.await()
			})
		}
	}
}

// TestUnfinished has a process end while it makes the index: what it has written is not taken for
// rows of the present baseline.
func TestUnfinished(t *testing.T) {
	w := newWorld(t)
	w.store(nil)
	s, err := openStore(t.Context(), vfs.Default, w.dir, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	stale := w.stored[0]
	stale.Job = "of another baseline"
	if err := s.db.Set(stale.key(nil), stale.value(nil), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.await()
}
