package main

import (
	"context"

	"github.com/millrace-io/millrace/ingest/dlq"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/views"
)

// replayLetters serves dead letters, which may be replayed and purged.
func (n *node) replayLetters() (of share, err error) {
	s, err := dlq.New(dlq.Config{Stages: n.pipeline.Stages.Stages}, n.nats, n.log)
	if err != nil {
		return of, err
	}
	return share{
		routes: []func(endpoint.API){s.Register},
		gauges: []sampler.Source{s.Gauges()},
	}, nil
}

// readLetters has the live view of dead letters.
func (n *node) readLetters() (of share, err error) {
	letters, err := dlq.New(dlq.Config{Stages: n.pipeline.Stages.Stages}, n.nats, n.log)
	if err != nil {
		return of, err
	}
	return share{views: []live.View{views.DeadLettersOf(newestLetters{letters})}}, nil
}

// newestLetters reads the dead letters that the live view shows.
type newestLetters struct{ letters *dlq.Service }

// State implements views.Letters.
func (l newestLetters) State(ctx context.Context) (count, last uint64, err error) {
	return l.letters.State(ctx)
}

// Newest implements views.Letters.
func (l newestLetters) Newest(ctx context.Context, most int) ([]views.LiveLetter, error) {
	page, err := l.letters.List(ctx, dlq.ListOptions{Limit: most})
	if err != nil {
		return nil, err
	}
	newest := make([]views.LiveLetter, 0, len(page.Letters))
	for _, v := range page.Letters {
		newest = append(newest, views.LiveLetter{
			ID: v.ID, Origin: v.Origin, Subject: v.Subject, Code: v.Code, Field: v.Field, Reason: v.Reason,
			DeadAt: v.DeadAt,
		})
	}
	return newest, nil
}
