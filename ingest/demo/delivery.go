package demo

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/event"
)

// delivery publishes events, whatever it takes.
type delivery struct {
	publisher Publisher
	log       *slog.Logger
	down      bool // an outage has been logged
	refused   bool // so has an event that no retry mends
}

const (
	attempt = 10 * time.Second
	// patience is how long events are worth another attempt: some time before
	// the first of a warm-up turns too old to be valid.
	patience = 12 * time.Hour
)

// backoff is how long to wait before events are published again.
var backoff = retry.Backoff{First: 250 * time.Millisecond, Most: 5 * time.Second}

// publish returns when the events are stored, ctx ends, or there is no hope.
func (d *delivery) publish(ctx context.Context, events []event.Event) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := backoff.Do(ctx, func() (err error) {
		if events, err = d.try(ctx, events); len(events) == 0 {
			return nil
		}
		return err
	}, func(err error, _ time.Duration) { d.failed(err) })
	if err == nil {
		d.restored()
	}
}

// try returns the events that are worth another attempt.
func (d *delivery) try(ctx context.Context, events []event.Event) ([]event.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	outcomes, err := d.publisher.EmitBatch(ctx, events)
	if err == nil {
		return nil, nil
	}
	if len(outcomes) != len(events) {
		return events, err
	}
	var left []event.Event
	for i, o := range outcomes {
		switch {
		case o.Status != client.Failed:
		case hopeless(o.Err):
			d.refuse(events[i], o.Err)
		default:
			left = append(left, events[i])
		}
	}
	return left, err
}

func hopeless(err error) bool {
	var invalid *event.Invalid
	return errors.As(err, &invalid) || errors.Is(err, client.ErrRefused) || errors.Is(err, client.ErrTooLarge)
}

func (d *delivery) refuse(e event.Event, err error) {
	if !d.refused {
		d.log.Warn("demo event refused; others that may follow are not reported", "article_url", e.ArticleURL,
			"stage", e.Stage, "error", err)
	}
	d.refused = true
}

func (d *delivery) failed(err error) {
	if !d.down {
		d.log.Warn("demo events are not stored; trying again until they are", "error", err)
	}
	d.down = true
}

func (d *delivery) restored() {
	if d.down {
		d.log.Info("demo events are stored again")
	}
	d.down = false
}
