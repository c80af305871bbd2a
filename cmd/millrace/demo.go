package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/ingest/demo"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// runDemo replays the bundled crawl history through the ordinary client, and has
// some work done and some sources crawled. An empty stream gets some hours of history
// first, and some weeks beside the replay.
func (n *node) runDemo(ctx context.Context, s *stack) error {
	js, err := jetstream.New(n.nats)
	if err != nil {
		return fmt.Errorf("start the demo: %w", err)
	}
	events, err := js.Stream(ctx, stream.Events)
	if err != nil {
		return fmt.Errorf("start the demo: %w", err)
	}
	publisher, err := client.New(n.nats, client.Config{}) // the demo itself says once that it can't publish
	if err != nil {
		return fmt.Errorf("start the demo: %w", err)
	}
	d, err := demo.New(demo.Config{
		Stages: n.pipeline.Stages.Stages, WarmUp: events.CachedInfo().State.LastSeq == 0,
	}, publisher, n.log)
	if err != nil {
		return fmt.Errorf("start the demo: %w", err)
	}
	s.launch("demo", d.Run)
	s.launch("demo's history", d.History)
	if n.ownQueues != nil {
		s.launch("demo's crawls", func(ctx context.Context) error {
			return d.Crawl(ctx, demo.Stores{
				Sources: n.sources, Jobs: n.jobs, Acts: n.acts, Queues: n.ownQueues, Hands: n.handout,
			})
		})
		s.launch("demo's work", func(ctx context.Context) error {
			return d.Work(ctx, n.nats, func(ctx context.Context) error {
				_, err := n.ownQueues.Create(ctx, queue.Settings{
					Name: demo.Queue, MaxAttempts: 3, BackoffS: []float64{20}, LeaseS: 30, RetentionS: 3600,
					MaxItems: 10_000,
				})
				if errors.Is(err, userqueue.ErrDiffers) { // somebody has changed its settings
					return nil
				}
				return err
			})
		})
	}
	return nil
}
