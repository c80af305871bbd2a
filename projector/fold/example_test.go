package fold_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/stream"
)

type visit struct{ ID, Page string } // a message of the stream VISITS

// visits is a view of that stream: how often each page was visited, each visit
// counted once. It is stored as one JSON file, which is replaced as a whole.
type visits struct {
	Upto  uint64 // the last message that is counted
	Pages map[string]int
	Seen  map[string]bool // ids of visits
	path  string
	crash func() error // of this test
}

// Stored says how far the file is.
func (v *visits) Stored(context.Context) (fold.Stored, error) {
	err := v.load()
	return fold.Stored{Upto: v.Upto}, err
}

// Open reads the file, which may be ahead by the batch that was under way.
func (v *visits) Open(context.Context, uint64) (fold.View[[]byte], error) { return v, v.load() }

func (v *visits) Failing() bool                                   { return false }
func (v *visits) Announce(context.Context, []byte, time.Duration) {}

// Take counts a visit, unless it is counted already: by this message, which the
// file knows by its sequence, or by another one with the same id.
func (v *visits) Take(m fold.Message) (full bool) {
	var visit visit
	if m.Seq <= v.Upto || json.Unmarshal(m.Data, &visit) != nil || v.Seen[visit.ID] {
		return false
	}
	v.Seen[visit.ID] = true
	v.Pages[visit.Page]++
	return false
}

// Seal returns the whole state at the cut.
func (v *visits) Seal(_ context.Context, cut fold.Cut) (file []byte, digest string, err error) {
	v.Upto = max(v.Upto, cut.To)
	file, err = json.Marshal(v)
	return file, "", err
}

// Write replaces the file. A real view would sync it to disk.
func (v *visits) Write(_ context.Context, file []byte) error {
	if err := v.crash(); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(v.path+".new", file, 0o600), os.Rename(v.path+".new", v.path), v.crash())
}

func (v *visits) load() error {
	v.Upto, v.Pages, v.Seen = 0, map[string]int{}, map[string]bool{}
	file, err := os.ReadFile(v.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, json.Unmarshal(file, v))
}

// foldVisits is one session of the view.
func foldVisits(ctx context.Context, in fold.Input, kv jetstream.KeyValue, sink *visits) error {
	lease, err := fold.OpenLog[struct{}](ctx, kv, "visits", "this process", 0)
	if err == nil {
		err = lease.Take(ctx)
	}
	if err != nil {
		return err
	}
	f, err := fold.New(fold.Config{MinInterval: time.Millisecond, BatchMessages: 50},
		fold.Deps{Input: in, Lease: lease, Log: slog.New(slog.DiscardHandler)}, sink)
	if err != nil {
		return err
	}
	return f.Run(ctx)
}

// TestVisits: the view is exact though visits come up to three times, and the
// process is killed again and again, before and after it has written.
func TestVisits(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	nc, js := srv.Connect(), srv.JetStream()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	kv, err := js.KeyValue(t.Context(), stream.Checkpoints)
	must(err)
	in := fold.NewStream(fold.StreamConfig{Stream: "VISITS", Consumer: "visits"}, nc, js, slog.New(slog.DiscardHandler))
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "VISITS", Subjects: []string{"visits"}})
	must(err)
	want, rng := map[string]int{}, rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		page := fmt.Sprint("/", rng.IntN(5))
		want[page]++
		data := fmt.Appendf(nil, `{"ID":"%d","Page":%q}`, i, page)
		for range 1 + rng.IntN(3) {
			_, err := js.Publish(t.Context(), "visits", data)
			must(err)
		}
	}
	killed, kills := errors.New("killed"), 0
	got := &visits{path: t.TempDir() + "/visits.json"}
	for len(got.Seen) < 400 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		err := foldVisits(ctx, in, kv, &visits{
			path:  got.path,
			crash: func() error { return []error{nil, nil, killed}[rng.IntN(3)] },
		})
		if errors.Is(err, killed) {
			kills++
		} else if ctx.Err() == nil && !errors.Is(err, fold.ErrLost) { // by what the one before has sent last
			t.Fatal(err)
		}
		cancel()
		must(got.load())
	}
	if !maps.Equal(got.Pages, want) || kills == 0 {
		t.Errorf("after %d kills the pages are %v, want %v", kills, got.Pages, want)
	}
}
