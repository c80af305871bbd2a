package stream_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestPipeline: the stages that a process has published stay until one publishes
// others.
func TestPipeline(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	js := s.JetStream()
	for _, step := range []struct{ publish, want string }{
		{"", ""},
		{"crawled,routed", "crawled,routed"},
		{"", "crawled,routed"},
		{"a,b,c", "a,b,c"},
	} {
		cfg := stream.Config{}
		if step.publish != "" {
			var err error
			if cfg.Stages, err = event.ParseStages(step.publish); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.Ensure(t.Context(), js, cfg); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Pipeline(t.Context(), js)
		if err != nil || strings.Join(got.Names(), ",") != step.want {
			t.Errorf("after %q: %q, %v; want %q", step.publish, got.Names(), err, step.want)
		}
	}
	if err := js.DeleteStream(t.Context(), stream.Events); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Pipeline(t.Context(), js); err != nil || len(got.Names()) != 0 {
		t.Errorf("without a stream: %q, %v", got.Names(), err)
	}
}

// TestMissing: what somebody deletes of streams without positions is made anew as it was, and EVENTS is not.
func TestMissing(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	look := func(create bool, want ...string) {
		t.Helper()
		if got, err := stream.Missing(t.Context(), js, create); err != nil || !slices.Equal(got, want) {
			t.Errorf("missing are %v, %v; want %v", got, err, want)
		}
	}
	look(true)
	kv, err := js.KeyValue(t.Context(), stream.Checkpoints)
	if err == nil {
		_, err = kv.PutString(t.Context(), stream.BatchesCheckpoint, `{"from":7,"to":9}`)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{stream.DLQ, stream.Sources, stream.Batches, stream.BatchesRead, "KV_" + stream.ProcessBucket} {
		was, err := js.Stream(t.Context(), name)
		if err == nil {
			err = js.DeleteStream(t.Context(), name)
		}
		if err != nil {
			t.Fatal(err)
		}
		look(false, name)
		look(true, name)
		look(false)
		is, err := js.Stream(t.Context(), name)
		if err != nil || !reflect.DeepEqual(is.CachedInfo().Config, was.CachedInfo().Config) {
			t.Errorf("%s is made as %+v, %v; was %+v", name, is.CachedInfo().Config, err, was.CachedInfo().Config)
		}
	}
	read, err := js.Stream(t.Context(), stream.BatchesRead)
	if err != nil || read.CachedInfo().State.FirstSeq != 10 {
		t.Errorf("%s begins with %v, and 9 are stored", stream.BatchesRead, read.CachedInfo().State)
	}
	for _, name := range []string{stream.DLQ, stream.Events} {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	look(true)
	if _, err := js.Stream(t.Context(), stream.Events); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("%s: %v", stream.Events, err)
	}
}

// TestEnsureShortensTheWindow: a stream of an earlier release gets the window of
// this one.
func TestEnsureShortensTheWindow(t *testing.T) {
	s := natstest.Start(t, stream.Config{DedupWindow: time.Hour})
	js := s.JetStream()
	for range 2 {
		if err := stream.Ensure(t.Context(), js, stream.Config{}); err != nil {
			t.Fatal(err)
		}
		events, err := js.Stream(t.Context(), stream.Events)
		if err != nil {
			t.Fatal(err)
		}
		if got := events.CachedInfo().Config.Duplicates; got != stream.MinDedupWindow {
			t.Errorf("the window is %s, want %s", got, stream.MinDedupWindow)
		}
	}
}

// TestDamagedConsumer: a consumer whose setting has changed by itself, and cannot be changed
// back, is named.
func TestDamagedConsumer(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t, stream.Config{}).JetStream()
	if err := stream.EnsureWork(t.Context(), js, nil, stream.WorkConfig{}); err != nil {
		t.Fatal(err)
	}
	for waiting, want := range map[int]string{4096: "", 512: "", 5096: "max_waiting is 5096, and should be 4096"} {
		name := fmt.Sprint("q", waiting)
		_, err := js.CreateConsumer(t.Context(), stream.Work, jetstream.ConsumerConfig{
			Durable: name, FilterSubject: stream.WorkSubject(name), AckPolicy: jetstream.AckExplicitPolicy, MaxWaiting: waiting,
		})
		if err != nil {
			t.Fatal(err)
		}
		err = stream.EnsureWork(t.Context(), js, []string{name}, stream.WorkConfig{})
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("with max_waiting %d: error %v, want %q", waiting, err, want)
		}
	}
}
