package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// TestKeysOfAnother holds invariant 10 when each slot group finds the key store
// of another one, whose files agree with each other: both go to quarantine
// and are filled again, and no repeat counts.
func TestKeysOfAnother(t *testing.T) {
	b := newBench(t)
	b.groups = 2
	rng := rand.New(rand.NewPCG(11, 1))
	var sent [][2]string
	b.lives(rng, 200, &sent)
	exchanged := filepath.Join(b.dir, "exchanged")
	must(t, os.Rename(b.dir+"/keys-0", exchanged))
	must(t, os.Rename(b.dir+"/keys-1", b.dir+"/keys-0"))
	must(t, os.Rename(exchanged, b.dir+"/keys-1"))
	b.again(sent)
	b.check()
	b.mustHaveQuarantined(2)
}

// TestLayoutOfAnother holds invariant 10 when the slot groups are two by their
// checkpoints and one by a layout that was made anew: its share of the slots is
// not what was counted, and nothing is folded.
func TestLayoutOfAnother(t *testing.T) {
	b := newBench(t)
	b.groups = 2
	rng := rand.New(rand.NewPCG(16, 1))
	var sent [][2]string
	b.lives(rng, 200, &sent)
	before := b.record()
	_, err := b.bucket().PutString(t.Context(), slots.Key, `{"slot_groups":1}`)
	must(t, err)
	defer b.awaitStill(before.View.Known)()
	if r := b.record(); r.From != before.From || r.To != before.To {
		t.Errorf("it goes on: %+v", r)
	}
}

// awaitStill starts a projector, and waits until it says that ClickHouse has not
// what was counted, and names that.
func (b *bench) awaitStill(counted contract.Known) (stop func()) {
	b.t.Helper()
	told := make(chan struct{}, 1)
	b.hear = func(text string) {
		if strings.Contains(text, "millrace accept-identities --slot-group=0") &&
			strings.Contains(text, counted.Identities.String()) {
			select {
			case told <- struct{}{}:
			default:
			}
		}
	}
	stop = b.start(nil)
	select {
	case <-told:
	case <-time.After(time.Minute):
		b.t.Fatal("nothing is told of what is missing")
	}
	return stop
}

// TestKeysOfOlder holds invariant 10 for a key store that an older millrace
// wrote, and a checkpoint that says nothing of what was counted.
func TestKeysOfOlder(t *testing.T) {
	b := newBench(t)
	rng := rand.New(rand.NewPCG(12, 1))
	var sent [][2]string
	b.lives(rng, 200, &sent)
	b.decide(b.truth.last, b.truth.last)
	db, err := pebble.Open(b.dir+"/keys", &pebble.Options{FormatMajorVersion: pebble.FormatNewest})
	must(t, err)
	must(t, db.Set([]byte("applied"), []byte{200, 0, 0, 0, 0, 0, 0, 0}, pebble.Sync))
	must(t, db.Close())
	b.again(sent)
	b.check()
	b.mustHaveQuarantined(1)
	if known := b.record().View.Known; known.At < 200 || known.Identities.Count != uint64(len(b.truth.seen)) {
		t.Errorf("the checkpoint knows %+v, want %d identities", known, len(b.truth.seen))
	}
}

// TestKnown: the checkpoint says what was counted, whichever store it was
// counted by, and however its batches were cut.
func TestKnown(t *testing.T) {
	b := newBench(t)
	rng := rand.New(rand.NewPCG(13, 1))
	var sent [][2]string
	for i := range 4 {
		if i == 2 {
			must(t, os.RemoveAll(b.dir+"/keys"))
		}
		b.lives(rng, 100, &sent)
		want := contract.Known{At: b.truth.last, Identities: b.counted()}
		if known := b.record().View.Known; known != want {
			t.Errorf("the checkpoint knows %+v, want %+v", known, want)
		}
	}
}

// TestKnownRegrouped: what the groups know together is what was counted, before
// and after their number is changed.
func TestKnownRegrouped(t *testing.T) {
	slowtest.Mark(t)
	b := newBench(t)
	rng := rand.New(rand.NewPCG(17, 1))
	var sent [][2]string
	stop := b.start(func(c *pipeline.Config) { c.BatchRows = 50 })
	b.history(rng, 200, &sent)
	b.reach(b.truth.last)
	for _, groups := range []uint32{3, 2} {
		b.regroup(groups)
		b.history(rng, 150, &sent)
		b.grouped(int(groups), b.truth.last)
	}
	b.history(rng, 10, &sent) // which the last groups fold, once they know what was counted before
	b.grouped(2, b.truth.last)
	stop()
	b.check()
	l, err := assignment.ReadLayout(t.Context(), b.bucket())
	must(t, err)
	records, err := assignment.Checkpoints(t.Context(), b.bucket(), l.Current())
	must(t, err)
	var known checkpoint.Sum
	for _, r := range records {
		known = known.Plus(r.View.Known.Identities)
	}
	if want := b.counted(); len(records) != 2 || known != want {
		t.Errorf("%d groups know %s, want %s", len(records), known, want)
	}
}

// counted is what the events table has.
func (b *bench) counted() (all checkpoint.Sum) {
	b.t.Helper()
	rows, err := b.db.Query(b.t.Context(), "SELECT DISTINCT identity FROM events")
	must(b.t, err)
	for rows.Next() {
		var id string
		must(b.t, rows.Scan(&id))
		all.AddID(checkpoint.Identity([]byte(id)))
	}
	must(b.t, rows.Err())
	return all
}

// TestMissingIdentities holds invariant 10 when ClickHouse has lost rows and the
// key store is to be filled from there: the group stops folding and says what is
// missing, until it is there again or an operator accepts that.
func TestMissingIdentities(t *testing.T) {
	slowtest.Mark(t)
	for name, restored := range map[string]bool{"restored": true, "accepted": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			rng := rand.New(rand.NewPCG(14, 1))
			var sent [][2]string
			b.lives(rng, 200, &sent)
			before := b.record()
			must(t, b.db.Exec(
				t.Context(),
				"CREATE TABLE kept ENGINE = MergeTree ORDER BY seq AS SELECT * FROM events WHERE seq % 3 = 0",
			))
			must(t, b.db.Exec(t.Context(), "DELETE FROM "+engine.Rows("events")+" WHERE seq % 3 = 0"))
			must(t, os.RemoveAll(b.dir+"/keys"))
			defer b.awaitStill(before.View.Known)()
			if r := b.record(); r.From != before.From || r.To != before.To {
				t.Errorf("it goes on: %+v", r)
			}
			if restored {
				must(t, b.db.Exec(t.Context(), "INSERT INTO events SELECT * FROM kept"))
			} else {
				b.accept()
			}
			b.history(rng, 50, &sent)
			b.reach(b.truth.last)
			if restored {
				b.check()
			}
		})
	}
}

// accept does what the command accept-identities does.
func (b *bench) accept() {
	b.t.Helper()
	for {
		l, err := assignment.OpenLease(b.t.Context(), b.bucket(), slots.Group{}, "")
		must(b.t, err)
		if err := pipeline.Accept(b.t.Context(), l); !errors.Is(err, fold.ErrLost) {
			must(b.t, err)
			return
		}
	}
}

// TestDroppedBatch: messages of a batch that was decided, and folded into the
// key store, are gone from the stream before they were counted. Published again
// they count: the store that knows them goes to quarantine.
func TestDroppedBatch(t *testing.T) {
	slowtest.Mark(t)
	b := newBench(t)
	rng := rand.New(rand.NewPCG(15, 1))
	var sent, dropped [][2]string
	b.lives(rng, 200, &sent)
	before := b.record()
	b.lives(rng, 50, &dropped)
	before.To = b.truth.last
	value, err := json.Marshal(before)
	must(t, err)
	_, err = b.bucket().Put(t.Context(), "funnel.0", value)
	must(t, err)
	must(t, b.db.Exec(t.Context(), fmt.Sprintf("DELETE FROM %s WHERE seq > %d", engine.Rows("events"), before.From)))
	s, err := b.js.Stream(t.Context(), stream.Events)
	must(t, err)
	must(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(b.truth.last+1)))
	b.again(dropped)
	var counted uint64
	must(t, b.db.QueryRow(t.Context(), "SELECT uniqExact(identity) FROM events").Scan(&counted))
	if counted != uint64(len(b.truth.seen)) {
		t.Errorf("%d events are counted of %d", counted, len(b.truth.seen))
	}
}

// again publishes all once more, and has it folded.
func (b *bench) again(sent [][2]string) {
	b.t.Helper()
	stop := b.start(nil)
	for _, m := range sent {
		b.publish(m[0], []byte(m[1]))
	}
	b.reach(b.truth.last)
	stop()
}

// record is the checkpoint of the first group.
func (b *bench) record() contract.Checkpoint {
	b.t.Helper()
	l, err := assignment.OpenLease(b.t.Context(), b.bucket(), slots.Group{}, "")
	must(b.t, err)
	return l.Record()
}

// mustHaveQuarantined fails unless so many key stores are in quarantine.
func (b *bench) mustHaveQuarantined(n int) {
	b.t.Helper()
	if found, _ := filepath.Glob(b.dir + "/keys*.damaged-*"); len(found) != n {
		b.t.Errorf("in quarantine: %v, want %d", found, n)
	}
}

// ear hears what is logged.
type ear struct {
	slog.Handler
	hear func(text string)
}

func (e ear) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool { e.hear(a.String()); return true })
	return e.Handler.Handle(ctx, r)
}

func (e ear) WithAttrs(attrs []slog.Attr) slog.Handler {
	return ear{e.Handler.WithAttrs(attrs), e.hear}
}
