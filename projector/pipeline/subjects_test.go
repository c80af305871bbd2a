package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/schemas/stream"
)

// guarded is a stream of events under guard.
type guarded struct {
	*testing.T
	js     jetstream.JetStream
	server *natstest.Server
}

func (f guarded) guard(most int, stages ...string) *pipeline.Subjects {
	f.Helper()
	g, err := pipeline.NewSubjects(pipeline.SubjectsConfig{Stages: stages, Most: most}, f.js, slog.New(slog.DiscardHandler))
	must(f, err)
	return g
}

func (f guarded) publish(subject string) error {
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	_, err := f.js.Publish(ctx, subject, []byte("{}"), jetstream.WithRetryAttempts(0))
	return err
}

// takes tells which subjects the stream takes. Who is refused is told so at once.
func (f guarded) takes(when string, want map[string]bool) {
	f.Helper()
	for subject, taken := range want {
		err := f.publish(subject)
		if taken && err != nil || !taken && !errors.Is(err, jetstream.ErrNoStreamResponse) &&
			!errors.Is(err, nats.ErrNoResponders) {
			f.Errorf("%s: publishing to %s: %v, want it taken: %t", when, subject, err, taken)
		}
	}
}

// TestSubjects: as long as there are few subjects, the stream takes events of any
// stage. Beyond, it takes those of the pipeline's stages and no others, whose
// publishers are told so; what is there stays, and consumers go on. When the
// invented ones have gone, it takes all again.
func TestSubjects(t *testing.T) {
	f := guarded{T: t, server: natstest.Start(t, stream.Config{})}
	f.js = f.server.JetStream()
	const most = 20
	g := f.guard(most, "crawled", "indexed")
	shapes := map[string]bool{
		"events.crawled.00": true, "events.indexed.ff": true,
		"events.translated.00": false, "events.crawled.zz": false, "events.crawled.FF": false,
		"events.crawled.0": false, "events.x.y": false,
	}
	before := map[string]bool{}
	for subject := range shapes {
		before[subject] = true
	}
	must(t, g.Round(t.Context()))
	f.takes("with few subjects", before)
	cons, err := f.js.CreateOrUpdateConsumer(t.Context(), stream.Events, jetstream.ConsumerConfig{
		Durable: "group", FilterSubjects: []string{stream.SlotSubjects(0), stream.SlotSubjects(0xff)},
		AckPolicy: jetstream.AckExplicitPolicy,
	})
	must(t, err)
	for i := range most {
		must(t, f.publish(fmt.Sprintf("events.invented.%d", i)))
	}
	must(t, g.Round(t.Context()))
	f.takes("with many", shapes)
	must(t, f.guard(most, "crawled", "indexed", "translated").Round(t.Context())) // as while stages change
	must(t, g.Round(t.Context()))
	shapes["events.translated.00"] = true
	f.takes("with many, for another projector", shapes)
	must(t, stream.Ensure(t.Context(), f.js, stream.Config{})) // as a start does
	must(t, g.Round(t.Context()))
	shapes["events.translated.00"] = false
	f.takes("after a restart", shapes)

	s, err := f.js.Stream(t.Context(), stream.Events)
	must(t, err)
	f.delivers(cons, s, 10)
	must(t, s.Purge(t.Context(), jetstream.WithPurgeSubject("events.invented.*")))
	must(t, g.Round(t.Context()))
	f.takes("when they have gone", before)
}

// delivers wants a consumer to have all events of its slots.
func (f guarded) delivers(cons jetstream.Consumer, s jetstream.Stream, least int) {
	f.Helper()
	batch, err := cons.FetchNoWait(1000)
	must(f, err)
	n := 0
	for range batch.Messages() {
		n++
	}
	must(f, batch.Error())
	info, err := s.Info(f.Context(), jetstream.WithSubjectFilter("events.*.*"))
	must(f, err)
	want := 0
	for subject, messages := range info.State.Subjects {
		if slot, ok := stream.SubjectSlot(subject); ok && (slot == 0 || slot == 0xff) {
			want += int(messages)
		}
	}
	if n != want || n < least {
		f.Errorf("the consumer has got %d events, want %d", n, want)
	}
}
