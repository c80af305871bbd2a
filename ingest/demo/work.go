package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Queue is the queue that Work fills and works.
const Queue = "thumbnails"

const (
	fileEvery = 5 * time.Minute
	// fileShards is how many shards a file has, and badShard is the one of the
	// first file that fails.
	fileShards, badShard = 8, 5
	// workers is how many items of a queue are worked at once.
	workers = 3
)

// Work shows what else there is, until ctx ends: files of shards on their way
// through the stages, one of which fails; the queue Queue, whose items now and
// then fail; and, where events begin with a warm-up, three dead letters. It does so
// by the ways that are open to every service. makeQueue makes the queue, if it is
// not there.
func (d *Demo) Work(ctx context.Context, nc *nats.Conn, makeQueue func(context.Context) error) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	w := &work{Demo: d, nc: nc, js: js, bad: fileName(time.Now())}
	var all errgroup.Group
	all.Go(func() error { w.letters(ctx); return nil })
	all.Go(func() error { w.files(ctx); return nil })
	for _, stage := range shard.Queues {
		all.Go(func() error { w.run(ctx, stage.String(), w.shard); return nil })
	}
	all.Go(func() error {
		if w.persist(ctx, func() error { return makeQueue(ctx) }) {
			all.Go(func() error { w.run(ctx, Queue, w.thumbnail); return nil })
			w.add(ctx)
		}
		return nil
	})
	return all.Wait()
}

type work struct {
	*Demo
	nc  *nats.Conn
	js  jetstream.JetStream
	bad string // the file of which a shard fails
}

// persist tries until it works, and returns false when ctx has ended before.
func (w *work) persist(ctx context.Context, try func() error) bool {
	return backoff.Do(ctx, try, w.waits) == nil
}

func (w *work) waits(err error, _ time.Duration) { w.log.Debug("the demo's work waits", "error", err) }

func (w *work) publish(ctx context.Context, subject string, data []byte) bool {
	return w.persist(ctx, func() error {
		_, err := w.js.Publish(ctx, subject, data)
		return err
	})
}

// run works a queue. Handlers under way end with ctx, so that the program stops at
// once; their items are given back.
func (w *work) run(ctx context.Context, queue string, handle client.Handler) {
	w.runAs(ctx, queue, handle, client.WorkConfig{Concurrency: workers})
}

func (w *work) runAs(ctx context.Context, queue string, handle client.Handler, as client.WorkConfig) {
	as.Grace = time.Millisecond
	_ = backoff.Keep(ctx, func(ctx context.Context) error { return client.Work(ctx, w.nc, queue, handle, as) }, w.waits)
}

// letters are events that break three rules.
func (w *work) letters(ctx context.Context) {
	if !w.cfg.WarmUp {
		return
	}
	now := time.Now().UTC().Format(time.RFC3339)
	for _, e := range []struct{ subject, text string }{
		{"events.reviewed.00", `{"article_url":"https://example.com/reviewed","source_name":"Example",` +
			`"stage":"reviewed",` +
			`"occurred_at":"` + now + `","service_name":"demo-reviewer","metadata":{"demo":true}}`},
		{"events.crawled.00", `{"article_url":"example.com/no-scheme","source_name":"Example","stage":"crawled",` +
			`"occurred_at":"` + now + `","service_name":"demo-crawler","metadata":{"demo":true}}`},
		{"events.crawled.00", `{"article_url":"https://example.com/cut-sho`},
	} {
		w.publish(ctx, e.subject, []byte(e.text))
	}
}

// files registers a file now and then.
func (w *work) files(ctx context.Context) {
	every := time.NewTicker(fileEvery)
	defer every.Stop()
	for name := w.bad; ; name = fileName(time.Now()) {
		report := stream.ShardReport{Filename: name}
		for i := range int64(fileShards) {
			report.Shards = append(report.Shards, i)
		}
		for _, subject := range []string{
			stream.ShardSubject("", "register"), stream.ShardSubject(shard.EventIngest.String(), "done"),
		} {
			text, err := json.Marshal(report)
			if err != nil || !w.publish(ctx, subject, text) {
				return
			}
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

func fileName(at time.Time) string { return at.UTC().Format("20060102150405") }

// shard works a shard at a stage for some seconds.
func (w *work) shard(ctx context.Context, it client.Item) error {
	if err := sleep(ctx, 2*time.Second, 6*time.Second); err != nil {
		return err
	}
	if it.Filename == w.bad && it.Shard == badShard && it.Stage == shard.Worker.String() {
		return client.Permanent(errors.New("line 1031: unexpected end of JSON input"))
	}
	return nil
}

// Groups of pictures of which the first start adds some: those of one site are none, those
// of another one never come, and those of a third are worked later.
const (
	brokenGroup, slowGroup, laterGroup = "broken.example", "slow.example", "later.example"

	groupSize = 12
	laterBy   = 2 * time.Hour
)

// first fills the queue with items of every state.
func (w *work) first() (items []client.NewItem) {
	for i := range groupSize {
		for _, group := range []string{brokenGroup, slowGroup, laterGroup} {
			it := client.NewItem{
				Group: group, Priority: i % 10,
				Payload: map[string]any{"url": fmt.Sprintf("https://%s/%d.jpg", group, i), "width": 320},
			}
			if group == laterGroup {
				it.RunAt = time.Now().Add(laterBy)
			}
			items = append(items, it)
		}
	}
	return items
}

// add adds pictures of articles to the queue, in bursts.
func (w *work) add(ctx context.Context) {
	if w.cfg.WarmUp {
		w.persist(ctx, func() error {
			_, err := client.Enqueue(ctx, w.nc, Queue, w.first()...)
			return err
		})
	}
	for ctx.Err() == nil {
		items := make([]client.NewItem, 1+rand.IntN(8))
		for i := range items {
			a := w.sample.Articles[rand.IntN(len(w.sample.Articles))]
			items[i] = client.NewItem{Payload: map[string]any{"url": a.URL, "width": 320}, Group: a.Source}
		}
		w.persist(ctx, func() error {
			_, err := client.Enqueue(ctx, w.nc, Queue, items...)
			return err
		})
		_ = sleep(ctx, time.Second, 3*time.Second)
	}
}

// thumbnail works a picture: some sites are slow to answer, and some pictures are
// none.
func (w *work) thumbnail(ctx context.Context, it client.Item) error {
	if err := sleep(ctx, 300*time.Millisecond, 1500*time.Millisecond); err != nil {
		return err
	}
	switch n := rand.IntN(100); {
	case it.Group == brokenGroup:
		return client.Permanent(errors.New("not a picture: 512 bytes of text/html"))
	case it.Group == slowGroup:
		return client.After(5*time.Second, errors.New("the site did not answer within 10000 ms"))
	case n < 3:
		return client.After(20*time.Second, fmt.Errorf("the site %s answered 503 after %d ms", it.Group, 1000+n*1234))
	case n == 3:
		return client.Permanent(fmt.Errorf("not a picture: %d bytes of text/html", 1000+it.ID))
	}
	return nil
}

// sleep waits for a time between two, and returns an error when ctx ends before.
func sleep(ctx context.Context, least, most time.Duration) error {
	select {
	case <-time.After(least + rand.N(most-least)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
