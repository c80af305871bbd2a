package batches

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/sampler/samplertest"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// TestWaiting: what waits is told by processes that do not read, and messages whose mode is off do not count as late.
func TestWaiting(t *testing.T) {
	r := newRoom(t)
	modes := r.modes()
	readers, err := NewReaders(r.cfg, ReadersDeps{
		JetStream: r.js, Postgres: tables.Pool(t), Storage: r.storage, Modes: modes,
		Registry: prometheus.NewRegistry(), Log: embeddedtest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	const messages, seconds = `millrace_batches_waiting_messages{stream="`, `millrace_batches_waiting_seconds{stream="`
	look := func(name string, want int, late bool) {
		t.Helper()
		got := samplertest.Read(t, readers.Gauges()...)
		age, err := strconv.ParseFloat(got[seconds+name+`"}`], 64)
		if err != nil || got[messages+name+`"}`] != strconv.Itoa(want) || (age > 0) != late {
			t.Errorf("%s: %v, want %d messages, late: %v", name, got, want, late)
		}
	}
	look(stream.Batches, 0, false)
	look(stream.BatchesRead, 0, false)
	if _, err := modes.Set(t.Context(), func(schema.Modes) schema.Modes { return schema.Modes{Legacy: true} }); err != nil {
		t.Fatal(err)
	}
	r.publish(event("crawl/a.json", "proj_xyz-brand-0", 1), event("crawl/b.json", "proj_xyz-brand-0", 2))
	look(stream.Batches, 2, false)
	r.publish(`{"data_ref":{"bucket":"crawl","path":"c.json"}}`)
	look(stream.Batches, 3, true)
	if _, err := modes.Set(t.Context(), func(schema.Modes) schema.Modes { return allOn }); err != nil {
		t.Fatal(err)
	}
	st, err := r.js.Stream(t.Context(), stream.Batches)
	if err == nil { // the first one is gone, as when it was read
		err = st.DeleteMsg(t.Context(), 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	look(stream.Batches, 2, true)
	if _, err := r.js.Publish(t.Context(), stream.BatchesReadSubject, []byte("x"), jetstream.WithRetryAttempts(0)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond) // by which it is older than nothing
	look(stream.BatchesRead, 1, true)
}
