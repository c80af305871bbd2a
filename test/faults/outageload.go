package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/client/emit"
	"github.com/millrace-io/millrace/schemas/event"
)

// quietStages are those of the pipeline that the load sends, in equal shares.
var quietStages = []string{"crawled", "indexed", "classified", "routed", "published"}

// load is what an installation does while nothing is broken: services emit events over NATS
// and HTTP, a queue is filled and worked, and jobs run every minute.
type load struct {
	*crew
	cluster *cluster
	client  *emit.Client
	metrics *prometheus.Registry // of the client
	idle    atomic.Bool          // workers of the queue mail are away
	broken  atomic.Bool          // one event in three breaks a rule
	failing atomic.Bool          // workers of the queue mail fail
	hurried bool                 // the jobs run every minute
}

func newLoad(c *cluster) (*load, error) {
	l := &load{crew: newCrew(0, c, newWorkNotes(nil)), cluster: c, metrics: prometheus.NewRegistry()}
	l.own, l.ingest, l.lease, l.web.Timeout = true, l.ingest[:1], 10*time.Second, 3*time.Second
	var err error
	l.client, err = emit.Open(emit.Options{
		URL: c.publishURL(), Service: "crawler", Registry: l.metrics, Log: slog.New(slog.DiscardHandler),
		Spool: filepath.Join(c.dir, "spool"), SpoolBytes: 256 << 10,
	})
	return l, err
}

// run goes on until ctx ends. What fails is what is to be recorded.
func (l *load) run(ctx context.Context) {
	var parts sync.WaitGroup
	for every, do := range map[time.Duration]func(context.Context, int){
		50 * time.Millisecond: l.emit, 250 * time.Millisecond: l.overHTTP, 500 * time.Millisecond: l.enqueue,
		100 * time.Millisecond: l.work,
	} {
		parts.Go(func() { repeat(ctx, every, do) })
	}
	parts.Go(func() { repeat(ctx, 200*time.Millisecond, l.crawl) })
	parts.Wait()
}

func repeat(ctx context.Context, every time.Duration, do func(context.Context, int)) {
	for n := 0; ctx.Err() == nil; n++ {
		do(ctx, n)
		wait(ctx, every)
	}
}

// article is that of the nth event: each article reaches all stages in turn.
func article(by string, n int) (url, stage string) {
	return fmt.Sprintf("https://example.com/%s/%d", by, n/len(quietStages)), quietStages[n%len(quietStages)]
}

func (l *load) emit(ctx context.Context, n int) {
	url, stage := article("nats", n)
	_ = l.client.Emit(ctx, event.Event{ArticleURL: url, SourceName: "example_com", Stage: stage})
}

func (l *load) overHTTP(ctx context.Context, n int) {
	url, stage := article("http", n)
	if l.broken.Load() && n%3 == 0 { // the broker takes it, and the projector does not
		subject := fmt.Sprintf("events.cooked.%02x", sha256.Sum256([]byte(url))[0])
		_ = l.cluster.publishRaw(ctx, subject, []byte(`{"article_url":"`+url+`","stage":"cooked"}`))
	}
	l.post(ctx, "/events", map[string]any{
		"article_url": url, "source_name": "example_com", "stage": stage, "service_name": "poster",
		"occurred_at": time.Now().UTC().Format(time.RFC3339Nano),
	})
}

func (l *load) enqueue(ctx context.Context, n int) {
	if n == 0 {
		l.insist(ctx, "/queues", map[string]any{
			"name": "mail", "lease_s": 10, "max_attempts": 1, "retention_s": 60, "max_items": 100_000,
		}, nil)
	}
	l.post(ctx, "/queues/mail/items", map[string]any{"items": []any{map[string]any{"payload": n}}})
}

func (l *load) work(ctx context.Context, _ int) {
	if !l.idle.Load() {
		l.end(ctx, "mail", l.failing.Load())
	}
}

// crawl has sources whose jobs run every minute, one after the other, and works their runs.
func (l *load) crawl(ctx context.Context, n int) {
	const sources = 12
	if n < sources*10 && n%10 == 0 {
		l.insist(ctx, "/sources", map[string]any{
			"name": fmt.Sprint("source ", n), "url": fmt.Sprint("https://example.org/", n), "priority": "critical",
		}, nil)
	}
	if n >= sources*10 && !l.hurried {
		l.hurried = l.hurryJobs(ctx)
	}
	l.end(ctx, "crawl", false)
}

// hurryJobs has every job run once a minute. It is false if the jobs cannot be listed now.
func (l *load) hurryJobs(ctx context.Context) bool {
	var page struct{ Items []struct{ ID string } }
	if l.get(ctx, "/jobs?limit=100", &page) != nil || len(page.Items) == 0 {
		return false
	}
	for _, j := range page.Items {
		_, _ = l.send(ctx, http.MethodPut, "/jobs/"+j.ID+"/override", map[string]any{"interval_minutes": 1}, nil)
		wait(ctx, 5*time.Second)
	}
	return true
}

// end takes items of a queue and ends them.
func (l *load) end(ctx context.Context, queue string, failing bool) {
	for i, it := range l.take(ctx, queue, "w", 20) {
		path, body := "done", map[string]any{"generation": it.Generation}
		if failing && i%2 == 0 {
			path, body["error"] = "fail", "550 no such user"
		}
		l.post(ctx, fmt.Sprintf("/queues/%s/items/%d/%s", queue, it.ID, path), body)
	}
}

// post sends a request once.
func (l *load) post(ctx context.Context, path string, body any) {
	_, _ = l.send(ctx, http.MethodPost, path, body, nil)
}
