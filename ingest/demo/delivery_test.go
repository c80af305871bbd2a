package demo

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
)

// TestOutage keeps the server away for ten minutes, during the warm-up and
// again later.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var log bytes.Buffer
		var refused [][]event.Event
		r := &recorder{fail: func(events []event.Event) ([]client.Outcome, error) {
			if minute := int(time.Since(start).Minutes()); minute >= 10 && minute < 20 || minute >= 30 {
				return nil, nil
			}
			refused = append(refused, events)
			return nil, errors.New("nobody there")
		}}
		stages := parse(t, event.DefaultStages)
		run(t, Config{Stages: stages, Seed: 5, WarmUp: true}, r, &log, 40*time.Minute)
		check(t, stages, r.sent) // no doubles, none in the future
		if first := refused[0][0]; r.sent[0].ArticleURL != first.ArticleURL ||
			!r.sent[0].OccurredAt.Equal(first.OccurredAt) {
			t.Errorf("%+v came instead of %+v", r.sent[0], first)
		}
		if n := strings.Count(log.String(), "WARN"); n != 2 {
			t.Errorf("%d warnings for two outages:\n%s", n, log.String())
		}
		if n := strings.Count(log.String(), "stored again"); n != 2 {
			t.Errorf("%d ends of two outages:\n%s", n, log.String())
		}
		if n := len(r.sent) - warmUpEvents; n > 21*60*defaultPace {
			t.Errorf("it made up for the outages: %d events", n)
		}
	})
}

// TestUnknownFate leaves part of a batch open: that part is sent again as it
// was, the stored part and the refused part are not.
func TestUnknownFate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first []event.Event
		r := &recorder{fail: func(events []event.Event) ([]client.Outcome, error) {
			if first != nil {
				return nil, nil
			}
			first = events
			outcomes := make([]client.Outcome, len(events))
			for i := range outcomes {
				switch i % 4 {
				case 0:
					outcomes[i].Err = client.ErrUnknown
				case 1:
					outcomes[i].Err = client.ErrRefused
				case 2:
					outcomes[i].Status = client.Accepted
				case 3:
					outcomes[i].Status = client.Duplicate
				}
			}
			return outcomes, client.ErrUnknown
		}}
		events := make([]event.Event, 8)
		for i := range events {
			events[i].ArticleURL = string(rune('a' + i))
		}
		d := delivery{publisher: r, log: slog.New(slog.DiscardHandler)}
		d.publish(t.Context(), events)
		if len(r.sent) != 2 || r.sent[0].ArticleURL != "a" || r.sent[1].ArticleURL != "e" {
			t.Errorf("sent again: %+v", r.sent)
		}
	})
}

func TestGivesUpOnOldEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := &recorder{fail: func([]event.Event) ([]client.Outcome, error) { return nil, client.ErrStreamFull }}
		d := delivery{publisher: r, log: slog.New(slog.DiscardHandler)}
		d.publish(t.Context(), make([]event.Event, 1))
		if took := time.Since(start); took < patience || took > patience+time.Minute {
			t.Errorf("it gave up after %s", took)
		}
	})
}

// TestStops ends the context at every kind of moment: Run must return without
// any time passing, also from a publisher that hangs.
func TestStops(t *testing.T) {
	for name, publisher := range map[string]Publisher{
		"between events": &recorder{},
		"in an outage": &recorder{fail: func([]event.Event) ([]client.Outcome, error) {
			return nil,
				errors.New("no")
		}},
		"in a call": hanging{},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				demo, err := New(Config{Stages: parse(t, event.DefaultStages), Seed: 6, WarmUp: true}, publisher,
					slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 12345*time.Millisecond)
				defer cancel()
				if err := demo.Run(ctx); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took != 12345*time.Millisecond {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

type hanging struct{}

func (hanging) EmitBatch(ctx context.Context, _ []event.Event) ([]client.Outcome, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
