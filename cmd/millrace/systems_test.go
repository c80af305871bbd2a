package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestOneFails: a system that fails for good is off, and /health says so. The others are at work.
func TestOneFails(t *testing.T) {
	data, addr := t.TempDir(), freeAddr(t)
	// The projector cannot read its name.
	if err := os.MkdirAll(filepath.Join(data, "projector", "owner"), 0o700); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	settings := nodeSettings{
		http: httpSettings{Addr: addr}, data: data, clickhouse: &clickhouse.Options{Addr: []string{freeAddr(t)}},
	}
	if err := settings.pipeline.Stages.UnmarshalText([]byte("crawled,indexed")); err != nil {
		t.Fatal(err)
	}
	n, err := newNode(log, settings)
	if err != nil {
		t.Fatal(err)
	}
	n.nats = natstest.Start(t, stream.Config{}).Connect()
	s := newStack(log)
	if err := n.run(t.Context(), s, roles{Ingest: true, Projector: true}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}()
	close(n.clickhouseTables.ready) // the projector gets as far as its name without ClickHouse
	off := awaitOff(t, addr, "projector")
	if off.System != "pipeline" || off.Reason == "" || off.Since == nil {
		t.Errorf("%+v", off)
	}
	postEvent(t, addr)
	again := testutil.ToFloat64(n.supervisor.restarts.WithLabelValues("pipeline", "projector"))
	for deadline := time.Now().Add(time.Minute); again == 0; time.Sleep(10 * time.Millisecond) {
		again = testutil.ToFloat64(n.supervisor.restarts.WithLabelValues("pipeline", "projector"))
		if time.Now().After(deadline) {
			t.Fatal("the projector is not started again")
		}
	}
	// When what it fails of is gone, so is its failure.
	if err := os.Remove(filepath.Join(data, "projector", "owner")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(data, "projector", "owner")); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the projector does not work again")
		}
	}
}

// awaitOff asks for /health until it says that a part is off. Systems on Postgres are off, too: there is none.
func awaitOff(t *testing.T, addr, part string) httpapi.Off {
	t.Helper()
	var h httpapi.Health
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/health")
		if err != nil {
			continue
		}
		err = json.NewDecoder(resp.Body).Decode(&h)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(h.Off, httpapi.Off{System: "jobs", Reason: "MILLRACE_POSTGRES_DSN is not set"}) {
			t.Fatalf("%+v", h)
		}
		if i := slices.IndexFunc(h.Off, func(o httpapi.Off) bool { return o.Part == part }); i >= 0 {
			return h.Off[i]
		}
	}
	t.Fatalf("/health does not say that %s is off: %+v", part, h)
	return httpapi.Off{}
}

// TestRestarts: a part that fails is run again, later each time, and is off until it has run for a while.
func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSupervisor(prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		begin, broken := time.Now(), errors.New("broken")
		var starts []time.Duration
		v.add("one", part{"fails", func(ctx context.Context) error {
			if starts = append(starts, time.Since(begin)); len(starts) <= 4 {
				return broken
			}
			<-ctx.Done()
			return nil
		}})
		v.add("two", part{"works", func(ctx context.Context) error { <-ctx.Done(); return nil }})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- v.Run(ctx) }()
		time.Sleep(restartWait + time.Millisecond)
		if off := v.off(); len(off) != 1 || off[0].System != "one" || off[0].Part != "fails" || off[0].Reason != "broken" ||
			!off[0].Since.Equal(begin) {
			t.Errorf("%+v", off)
		}
		time.Sleep(15*restartWait + proven/2)
		if len(v.off()) != 1 {
			t.Error("a part that has just been started again counts as on")
		}
		time.Sleep(proven)
		if off := v.off(); len(off) != 0 {
			t.Errorf("%+v", off)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := []time.Duration{0, restartWait, 3 * restartWait, 7 * restartWait, 15 * restartWait}
		if !slices.Equal(starts, want) {
			t.Errorf("starts at %v, want %v", starts, want)
		}
	})
}

// TestSystemsEndInOrder: the last system ends first, and those before it run until it has.
func TestSystemsEndInOrder(t *testing.T) {
	v := newSupervisor(prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	var mu sync.Mutex
	var ended []string
	var running sync.WaitGroup
	for _, name := range []string{"queues", "jobs", "demo"} {
		running.Add(1)
		v.add(name, part{"work", func(ctx context.Context) error {
			running.Done()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, name)
			return nil
		}})
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- v.Run(ctx) }()
	running.Wait()
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if want := []string{"demo", "jobs", "queues"}; !slices.Equal(ended, want) {
		t.Errorf("ended in the order %v, want %v", ended, want)
	}
}
