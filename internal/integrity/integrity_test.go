package integrity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// site is a server whose files a test damages, and a checker.
type site struct {
	t    *testing.T
	srv  *natstest.Server
	js   jetstream.JetStream
	file string
	*Checker
	log bytes.Buffer
}

func newSite(t *testing.T) *site {
	s := &site{t: t, srv: natstest.Start(t, stream.Config{}), file: filepath.Join(t.TempDir(), "streams")}
	s.begin()
	s.must(stream.EnsureWork(t.Context(), s.js, []string{"shard-worker"}, stream.WorkConfig{}))
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// begin makes the checker of a process that starts.
func (s *site) begin() {
	s.t.Helper()
	nc := s.srv.Connect()
	var err error
	s.js, err = jetstream.New(nc)
	s.must(err)
	s.Checker, err = New(Config{File: s.file, ScrubShare: 1, LeaderLag: time.Millisecond}, nc, prometheus.NewRegistry(),
		slog.New(slog.NewTextHandler(&s.log, nil)))
	s.must(err)
	s.must(s.Look(s.t.Context()))
}

// restart stops everything, has a file of the streams changed, and starts again.
func (s *site) restart(change func(dir string)) {
	s.t.Helper()
	s.must(s.Look(s.t.Context()))
	s.srv.Stop()
	if change != nil {
		change(filepath.Join(s.srv.Dir(), "jetstream", "MILLRACE", "streams"))
	}
	s.srv.Start()
	s.begin()
}

func (s *site) publish(subject string, n int) {
	s.t.Helper()
	for i := range n {
		_, err := s.js.Publish(s.t.Context(), fmt.Sprintf(subject, i), fmt.Appendf(nil, "message %03d", i))
		s.must(err)
	}
}

func (s *site) stream(name string) jetstream.Stream {
	s.t.Helper()
	str, err := s.js.Stream(s.t.Context(), name)
	s.must(err)
	return str
}

// scrubAll reads all streams and returns what is lost by then.
func (s *site) scrubAll() []string {
	s.t.Helper()
	for _, st := range Streams() {
		s.must(s.Scrub(s.t.Context(), st))
	}
	s.must(s.Look(s.t.Context()))
	return s.Damage()
}

// expect holds that exactly these sequences of a stream are lost, and named.
func (s *site) expect(name string, want string) {
	s.t.Helper()
	damage := s.scrubAll()
	if len(damage) != 1 || !strings.Contains(damage[0], "stream "+name+" ") ||
		!strings.Contains(damage[0], "sequences "+want+" (") {
		s.t.Errorf("%q, want sequences %s of %s", damage, want, name)
	}
	if log := s.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, name) {
		s.t.Errorf("the log does not name %s: %s", name, log)
	}
	if n := testutil.ToFloat64(s.metrics.damaged.WithLabelValues(name)); n != 1 {
		s.t.Errorf("millrace_stream_damaged is %v", n)
	}
}

// flip flips a bit of the record with a text.
func (s *site) flip(file, text string) {
	s.t.Helper()
	data, err := os.ReadFile(file)
	s.must(err)
	i := bytes.Index(data, []byte(text))
	if i < 0 {
		s.t.Fatalf("%s has no %q", file, text)
	}
	data[i] ^= 4
	s.must(os.WriteFile(file, data, 0o600))
}

// fill puts messages on each stream, which are in one block.
func (s *site) fill() {
	s.publish("events.crawled.%02x", 100)
	s.publish("shards.report%.0d", 100)
	s.publish("sources.SOURCE_CREATED%.0d", 100)
	s.publish("dlq.EVENTS.%d", 100)
	s.publish("work.shard-worker%.0d", 100)
}

// TestFlippedBit: the server skips a record with a wrong checksum and says nothing.
// The checker names it, and a restart does not make it forget; once accepted, it is
// known.
func TestFlippedBit(t *testing.T) {
	for _, name := range []string{stream.Events, stream.Shards, stream.Sources, stream.DLQ, stream.Work} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.fill()
			s.restart(func(dir string) { s.flip(filepath.Join(dir, name, "msgs", "1.blk"), "message 041") })
			s.expect(name, "42")
			s.restart(nil)
			s.expect(name, "42")
			lost, err := Accept(t.Context(), s.js, name)
			s.must(err)
			if !slices.Equal(lost.Sequences, Ranges{{42, 42}}) {
				t.Errorf("accepted is %+v", lost)
			}
			s.must(s.Look(t.Context()))
			if damage := s.scrubAll(); len(damage) > 0 {
				t.Errorf("after it was accepted: %q", damage)
			}
			s.restart(nil)
			if damage := s.scrubAll(); len(damage) > 0 {
				t.Errorf("after it was accepted and restarted: %q", damage)
			}
			if n := testutil.ToFloat64(s.metrics.damaged.WithLabelValues(name)); n != 0 {
				t.Errorf("millrace_stream_damaged is %v", n)
			}
		})
	}
}

// TestScrubWhilePublished: a message that comes while a stream is scrubbed does not stand for one that is missing.
func TestScrubWhilePublished(t *testing.T) {
	s := newSite(t)
	s.publish("shards.report%.0d", scrubChunk+100)
	once := sync.OnceFunc(func() { s.publish("shards.report%.0d", 1) })
	st := Stream{Name: stream.Shards, Whole: true, Valid: func(m jetstream.Msg) error {
		once()
		if meta, err := m.Metadata(); err != nil || meta.Sequence.Stream == 500 {
			return errors.New("not delivered")
		}
		return nil
	}}
	s.must(s.Scrub(t.Context(), st))
	if damage := s.Damage(); len(damage) != 1 || !strings.Contains(damage[0], "sequences 500 (") {
		t.Errorf("%q, want sequence 500 of %s", damage, st.Name)
	}
}

// TestShortened: after a crash the server cuts off what is behind a damaged record.
// The checker knows from its note where the stream ended, also if it grows beyond
// that before the checker looks.
func TestShortened(t *testing.T) {
	for _, grown := range []int{0, 200} {
		for _, name := range []string{stream.Events, stream.Sources} {
			t.Run(fmt.Sprint(name, " grown by ", grown), func(t *testing.T) {
				s := newSite(t)
				s.fill()
				s.must(s.Look(t.Context()))
				s.srv.Stop()
				msgs := filepath.Join(s.srv.Dir(), "jetstream", "MILLRACE", "streams", name, "msgs")
				s.must(os.Remove(filepath.Join(msgs, "index.db"))) // as it is after a crash
				s.flip(filepath.Join(msgs, "1.blk"), "message 060")
				s.srv.Start()
				s.js = s.srv.JetStream()
				if grown > 0 {
					s.publish(map[string]string{
						stream.Events: "events.crawled.%02x", stream.Sources: "sources.SOURCE_UPDATED%.0d",
					}[name], grown)
				}
				s.begin()
				s.expect(name, "61-100")
			})
		}
	}
}

// TestMovedSubject: the server's checksum covers subject and body, but not where one
// ends and the other begins. An entry of a bucket of which the end of the key has
// become the begin of the value is lost.
func TestMovedSubject(t *testing.T) {
	s := newSite(t)
	kv, err := s.js.KeyValue(t.Context(), stream.Checkpoints)
	s.must(err)
	for i := range 4 {
		_, err = kv.Put(t.Context(), fmt.Sprint("funnel.", i), []byte(`{"from":1}`))
		s.must(err)
	}
	name := "KV_" + stream.Checkpoints
	s.restart(func(dir string) {
		file := filepath.Join(dir, name, "msgs", "1.blk")
		data, err := os.ReadFile(file)
		s.must(err)
		data[bytes.Index(data, []byte("$KV.millrace_checkpoints.funnel.2"))-2] ^= 1 // the low byte of the length
		s.must(os.WriteFile(file, data, 0o600))
	})
	s.expect(name, "3")
}

// TestAcked: what was acknowledged to this process since the last look is known to be
// lost, too.
func TestAcked(t *testing.T) {
	s := newSite(t)
	s.publish("events.crawled.%02x", 50)
	s.must(s.Look(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.acked.keep(ctx) }()
	for i := range 20 {
		ack, err := s.js.Publish(t.Context(), "events.crawled.00", fmt.Appendf(nil, "late %03d", i))
		s.must(err)
		s.Acked(ack.Stream, ack.Sequence)
	}
	cancel()
	s.must(<-done)
	s.srv.Stop()
	msgs := filepath.Join(s.srv.Dir(), "jetstream", "MILLRACE", "streams", stream.Events, "msgs")
	s.must(os.Remove(filepath.Join(msgs, "index.db"))) // as it is after a crash
	s.flip(filepath.Join(msgs, "1.blk"), "late 004")
	s.srv.Start()
	s.begin()
	s.expect(stream.Events, "55-70")
	s.must(s.acked.write())
	s.publish("events.crawled.%02x", 5) // which get the sequences of others
	s.restart(nil)
	s.expect(stream.Events, "55-70")
}

// TestNoFalseAlarm: what is deleted, purged, aged or limited is not lost.
func TestNoFalseAlarm(t *testing.T) {
	s := newSite(t)
	s.fill()
	ctx := t.Context()
	s.must(s.stream(stream.Events).Purge(ctx, jetstream.WithPurgeSequence(31)))
	s.must(s.stream(stream.Events).DeleteMsg(ctx, 50)) // by hand
	s.must(s.stream(stream.DLQ).DeleteMsg(ctx, 7))
	s.must(s.stream(stream.DLQ).SecureDeleteMsg(ctx, 9))
	s.must(s.stream(stream.Shards).Purge(ctx))
	for i := range 3 {
		if damage := s.scrubAll(); len(damage) > 0 {
			t.Fatalf("%d restarts: %q %+v", i, damage, s.note(stream.Events))
		}
		s.restart(nil)
	}
	s.publish("shards.report%.0d", 10)
	s.must(s.stream(stream.DLQ).DeleteMsg(ctx, 8))
	if damage := s.scrubAll(); len(damage) > 0 {
		t.Fatalf("%q", damage)
	}
}

// TestDamagedNotes: notes that cannot be believed are set aside, and that is said.
func TestDamagedNotes(t *testing.T) {
	s := newSite(t)
	s.fill()
	s.restart(func(string) {
		data, err := os.ReadFile(s.file)
		s.must(err)
		data[len(data)/2] ^= 1
		s.must(os.WriteFile(s.file, data, 0o600))
	})
	if damage := s.Damage(); len(damage) != 1 || !strings.Contains(damage[0], s.file) {
		t.Errorf("%q", damage)
	}
	s.restart(nil)
	if damage := s.scrubAll(); len(damage) > 0 {
		t.Errorf("at the next start: %q", damage)
	}
}

// TestMadeAnew: a stream whose metadata is damaged is not opened by the server, and
// Millrace makes it anew on its messages.
func TestMadeAnew(t *testing.T) {
	s := newSite(t)
	s.fill()
	s.must(s.Look(t.Context()))
	s.srv.Stop()
	s.flip(filepath.Join(s.srv.Dir(), "jetstream", "MILLRACE", "streams", stream.Events, "meta.inf"), "EVENTS")
	s.srv.Start()
	s.js = s.srv.JetStream()
	s.must(stream.Ensure(t.Context(), s.js, stream.Config{}))
	s.begin()
	damage := s.scrubAll()
	if len(damage) != 1 || !strings.Contains(damage[0], "stream EVENTS: it was made anew") {
		t.Errorf("%q", damage)
	}
	if n := s.stream(stream.Events).CachedInfo().State.Msgs; n != 100 {
		t.Errorf("it has %d messages", n)
	}
	_, err := Accept(t.Context(), s.js, stream.Events)
	s.must(err)
	s.must(s.Look(t.Context()))
	if damage := s.scrubAll(); len(damage) > 0 {
		t.Errorf("after it was accepted: %q", damage)
	}
}

// TestOtherProcesses: what one process finds, the bucket tells; an acceptance holds
// for a process that finds it later.
func TestOtherProcesses(t *testing.T) {
	s := newSite(t)
	s.fill()
	s.restart(func(dir string) { s.flip(filepath.Join(dir, stream.Events, "msgs", "1.blk"), "message 010") })
	s.expect(stream.Events, "11")
	kv, err := s.js.KeyValue(t.Context(), stream.Checkpoints)
	s.must(err)
	entry, err := kv.Get(t.Context(), "lost.EVENTS")
	s.must(err)
	var told Loss
	if s.must(json.Unmarshal(entry.Value(), &told)); !slices.Equal(told.Sequences, Ranges{{11, 11}}) {
		t.Errorf("the bucket has %s", entry.Value())
	}
	_, err = Accept(t.Context(), s.js, stream.Events)
	s.must(err)
	s.file += "-other"
	s.begin()
	if damage := s.scrubAll(); len(damage) > 0 {
		t.Errorf("another process, after it was accepted: %q", damage)
	}
}

// FuzzNotes: notes that are read are those that were written, or none.
func FuzzNotes(f *testing.F) {
	f.Add([]byte("00000000\n{}"))
	f.Add(fmt.Appendf(nil, "%s\n%s", checksum([]byte(`{"streams":null}`)), `{"streams":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "streams")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := readNotes(file)
		if err == nil && n.Streams == nil {
			t.Errorf("%q is read as %+v", data, n)
		}
	})
}
