package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/ingest/demo"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// runDemo replays the bundled crawl history through the ordinary client, and has
// some work done and some sources crawled. An empty stream gets some hours of history
// first, and some weeks beside the replay.
func (n *node) runDemo() (of share, err error) {
	if !n.demo {
		return of, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstLook)
	defer cancel()
	events, err := n.js.Stream(ctx, stream.Events)
	if err != nil {
		return of, fmt.Errorf("start the demo: %w", err)
	}
	publisher, err := client.New(n.nats, client.Config{}) // the demo itself says once that it can't publish
	if err != nil {
		return of, fmt.Errorf("start the demo: %w", err)
	}
	d, err := demo.New(demo.Config{
		Stages: n.pipeline.Stages.Stages, WarmUp: events.CachedInfo().State.LastSeq == 0,
	}, publisher, n.log)
	if err != nil {
		return of, fmt.Errorf("start the demo: %w", err)
	}
	of.parts = []part{{"events", d.Run}, {"history", d.History}}
	if n.database != nil {
		of.parts = append(of.parts, part{"crawls", n.demoCrawls(d)}, part{"work", n.demoWork(d)},
			part{"batches", n.demoBatches(d)}, part{"uploads", n.demoUploads(d)})
	}
	return of, nil
}

func (n *node) demoCrawls(d *demo.Demo) func(context.Context) error {
	return func(ctx context.Context) error {
		return d.Crawl(ctx, n.nats, demo.Commands{Import: n.importSources, Acts: n.stores.acts})
	}
}

func (n *node) demoWork(d *demo.Demo) func(context.Context) error {
	return func(ctx context.Context) error {
		return d.Work(ctx, n.nats, n.demoQueue(queue.Settings{
			Name: demo.Queue, MaxAttempts: 3, BackoffS: []float64{20}, LeaseS: 30, RetentionS: 3600, MaxItems: 10_000,
		}))
	}
}

func (n *node) demoBatches(d *demo.Demo) func(context.Context) error {
	return func(ctx context.Context) error { return d.Batches(ctx, n.nats) }
}

func (n *node) demoUploads(d *demo.Demo) func(context.Context) error {
	return func(ctx context.Context) error {
		return d.Uploads(ctx, n.nats, demo.Files{Uploads: n.stores.uploads, Files: n.stores.files},
			n.demoQueue(queue.Settings{Name: demo.ProductQueue, MaxAttempts: 3, LeaseS: 30}))
	}
}

// demoQueue makes a queue, unless it is there: somebody may have changed its settings.
func (n *node) demoQueue(s queue.Settings) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := n.stores.own.Create(ctx, s)
		if errors.Is(err, userqueue.ErrDiffers) {
			return nil
		}
		return err
	}
}
