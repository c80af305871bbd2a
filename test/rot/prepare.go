package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/internal/integrity"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// prepare makes the folders of all parts, or of one, and reads what is in them.
func prepare(ctx context.Context, dir, only string) (*prepared, error) {
	p := &prepared{dir: dir}
	for _, part := range parts() {
		name := part.name()
		if only != "" && only != name {
			continue
		}
		stopped, killed := filepath.Join(dir, name), filepath.Join(dir, name+"-killed")
		if err := os.Mkdir(stopped, 0o700); err != nil {
			return nil, err
		}
		if err := part.fill(ctx, stopped, killed); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for suffix, dir := range map[string]string{"": stopped, " killed": killed} {
			v := variant{name: name + suffix, dir: dir, part: part}
			if err := v.know(ctx, filepath.Join(p.dir, "trial")); err != nil {
				return nil, fmt.Errorf("%s: %w", v.name, err)
			}
			p.variants = append(p.variants, v)
		}
	}
	if p.variants == nil {
		return nil, fmt.Errorf("there is no part %q", only)
	}
	p.sort()
	return p, nil
}

// know opens a copy that has no damage.
func (v *variant) know(ctx context.Context, dir string) (err error) {
	if err := os.CopyFS(dir, os.DirFS(v.dir)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := v.part.open(ctx, dir)
	if err != nil {
		return err
	}
	if len(f.Said) > 0 || len(f.Facts) < 100 {
		return fmt.Errorf("without damage, it has %d facts and says %q", len(f.Facts), f.Said)
	}
	v.want = f.Facts
	return nil
}

const stage = "shard-worker"

// fill makes streams with something in each, in several files.
func (natsPart) fill(ctx context.Context, dir, killed string) (err error) {
	s, err := startNATS(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := ensure(ctx, s.js); err != nil {
		return err
	}
	checker, err := integrity.New(integrity.Config{File: filepath.Join(dir, notesFile)}, s.nc, prometheus.NewRegistry(),
		slog.New(s.said))
	if err != nil {
		return err
	}
	for _, fill := range []func(context.Context) error{s.publishAll, s.fold, s.work, s.crawl, s.bury} {
		if err := fill(ctx); err != nil {
			return err
		}
		if err := checker.Look(ctx); err != nil {
			return err
		}
	}
	return copyStill(killed, dir)
}

// copyStill copies a folder whose owner has it open and is idle, as the folder is if
// the owner is killed then. What the owner still does in the background may change
// files meanwhile; then it copies again.
func copyStill(to, from string) error {
	for range 50 {
		before, err := sizes(from)
		if err != nil {
			return err
		}
		err = os.CopyFS(to, os.DirFS(from))
		after, listed := sizes(from)
		if err == nil && listed == nil && maps.Equal(before, after) {
			return nil
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	return fmt.Errorf("the files in %s change all the time", from)
}

// sizes are the sizes of the files in a folder.
func sizes(dir string) (map[string]int64, error) {
	files := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		i, err := e.Info()
		if err == nil {
			files[path] = i.Size()
		}
		return err
	})
	return files, err
}

// publishAll publishes events, and ages some.
func (s *server) publishAll(ctx context.Context) error {
	events, err := sampleEvents(2400, 500)
	if err != nil {
		return err
	}
	for i, text := range events {
		subject := stream.EventSubject("crawled", sha256.Sum256([]byte(sampleEvent(i, 500).ArticleURL)))
		if _, err := s.js.PublishAsync(subject, text); err != nil {
			return err
		}
	}
	for i := range 200 {
		if _, err := s.js.PublishAsync("shards.report", fmt.Appendf(nil, `{"shard":%d}`, i)); err != nil {
			return err
		}
	}
	select {
	case <-s.js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	}
	str, err := s.js.Stream(ctx, stream.Events)
	if err != nil {
		return err
	}
	return str.Purge(ctx, jetstream.WithPurgeSequence(101))
}

// fold decides batches.
func (s *server) fold(ctx context.Context) error {
	kv, err := s.js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return err
	}
	l, err := assignment.AgreeLayout(ctx, kv, 2)
	if err != nil {
		return err
	}
	for _, g := range l.All() {
		log, err := assignment.OpenLease(ctx, kv, g, "rot")
		if err != nil {
			return err
		}
		for at := uint64(0); at < 1500; at += 75 {
			if err := log.Decide(ctx, at, at+75, ""); err != nil {
				return err
			}
		}
	}
	b, err := s.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: stream.Backfills, History: 1})
	if err != nil {
		return err
	}
	for i := range 20 {
		if _, err := b.Put(ctx, fmt.Sprintf("table.%016x", i%5), fmt.Appendf(nil, `{"rows":%d}`, i)); err != nil {
			return err
		}
	}
	return nil
}

// work hands items out and has some of them answered.
func (s *server) work(ctx context.Context) error {
	for i := range 300 {
		_, err := s.js.Publish(ctx, stream.WorkSubject(stage), fmt.Appendf(nil, `{"item":%d}`, i),
			jetstream.WithExpectLastSequence(uint64(i)))
		if err != nil {
			return err
		}
	}
	c, err := s.js.Consumer(ctx, stream.Work, stage)
	if err != nil {
		return err
	}
	return answer(c, 150, 100)
}

// answer takes messages of a consumer and acknowledges some.
func answer(c jetstream.Consumer, take, ack int) error {
	batch, err := c.FetchNoWait(take)
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		if ack--; ack >= 0 {
			if err := m.Ack(); err != nil {
				return err
			}
		}
	}
	return batch.Error()
}

// crawl changes sources.
func (s *server) crawl(ctx context.Context) error {
	for i := range 200 {
		m := nats.NewMsg(stream.SourceSubject("SOURCE_CREATED"))
		m.Data = fmt.Appendf(nil, `{"source":%d}`, i)
		m.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("source/", i))
		if _, err := s.js.PublishMsg(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// bury writes dead letters and removes some, as a replay does.
func (s *server) bury(ctx context.Context) error {
	var buried []deadletter.Letter
	for i := range 200 {
		buried = append(buried, deadletter.Letter{
			Stream: stream.Events, Subject: "events.crawled.00", Seq: uint64(i + 1), Time: began,
			Data: fmt.Appendf(nil, `{"letter":%d}`, i), Reason: item.Invalid{Field: "stage", Code: "stage_unknown", Rule: "is unknown"},
		})
	}
	if err := deadletter.Publish(ctx, s.js, buried, slog.New(s.said)); err != nil {
		return err
	}
	letters, err := s.js.Stream(ctx, stream.DLQ)
	if err != nil {
		return err
	}
	for seq := uint64(50); seq < 70; seq++ {
		if err := letters.DeleteMsg(ctx, seq); err != nil {
			return err
		}
	}
	return nil
}

// sampleEvents returns events as JSON texts of about a size.
func sampleEvents(n, size int) (texts [][]byte, err error) {
	for i := range n {
		e := sampleEvent(i, size)
		text, err := e.MarshalJSON()
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func sampleEvent(i, size int) event.Event {
	return event.Event{
		ArticleURL: fmt.Sprintf("https://example.com/%0*d", size/2, i), SourceName: "example.com", Stage: "crawled",
		ServiceName: "rot", OccurredAt: began,
	}
}
