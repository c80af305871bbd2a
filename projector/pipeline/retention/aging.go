package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/stream"
)

// AgingConfig shapes Aging. The zero value of a field stands for its default.
type AgingConfig struct {
	// MaxAge is how long the stream keeps events that are folded, by the
	// broker's clock; default 7 days.
	MaxAge time.Duration
	// Every is how often it looks; default a tenth of MaxAge, from a second to
	// a minute.
	Every time.Duration
}

// Aging removes events. It runs beside a projector.
//
// The broker has an age limit of its own, which is not used: it would drop by its clock
// alone what nobody has folded yet, when projectors or their databases are away for longer,
// or when that clock jumps ahead by as much.
//
// Every projector may run it at any time, also several at once.
type Aging struct {
	cfg    AgingConfig
	js     jetstream.JetStream
	log    *slog.Logger
	folded uint64 // as the round before found it
}

// NewAging checks the configuration and starts nothing.
func NewAging(cfg AgingConfig, js jetstream.JetStream, log *slog.Logger) (*Aging, error) {
	if cfg.MaxAge < 0 || cfg.Every < 0 {
		return nil, errors.New("aging: times must not be negative")
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = 7 * 24 * time.Hour
	}
	if cfg.Every == 0 {
		cfg.Every = min(max(cfg.MaxAge/10, time.Second), time.Minute)
	}
	return &Aging{cfg: cfg, js: js, log: log.With("component", "aging")}, nil
}

// Run removes events until ctx ends. What fails is tried again in the next
// round.
func (k *Aging) Run(ctx context.Context) error {
	return retry.Every(ctx, k.cfg.Every, k.Round,
		retry.Warn(k.log, "old events stay on the stream for now", "retry_in", k.cfg.Every))
}

// roundLimit bounds a round, which makes some dozens of requests.
const roundLimit = 30 * time.Second

// Round removes what is old enough now, and had been folded when the round
// before looked: how far an idle group is, rests on what a broker's server
// counts, which may lag by moments.
func (k *Aging) Round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	kv, err := k.js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", stream.Checkpoints, err)
	}
	now, err := assignment.Folded(ctx, kv, reached)
	if err != nil {
		return err
	}
	upto := min(now, k.folded)
	if k.folded = now; upto == 0 {
		return nil
	}
	s, err := k.js.Stream(ctx, stream.Events)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	// Messages carry the broker's time, right or wrong.
	first, err := firstSince(ctx, s, upto, s.CachedInfo().TimeStamp.Add(-k.cfg.MaxAge))
	if err != nil || first <= s.CachedInfo().State.FirstSeq {
		return err
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSequence(first)); err != nil {
		return fmt.Errorf("remove events before %d from stream %s: %w", first, stream.Events, err)
	}
	k.log.Debug("old events removed from the stream", "from", s.CachedInfo().State.FirstSeq, "to", first-1)
	return nil
}

// reached is how far a group is that has nothing left up to there.
func reached(r funnel.Checkpoint) uint64 { return max(r.From, r.CaughtUp) }

// firstSince returns the sequence of the first message of a time or later, and
// that after upto if there is none before. Where a clock was set back, times
// are in no order: then it may be any between old and young.
func firstSince(ctx context.Context, s jetstream.Stream, upto uint64, since time.Time) (uint64, error) {
	state := s.CachedInfo().State
	lo, hi := state.FirstSeq, min(upto, state.LastSeq)+1
	if !state.FirstTime.Before(since) {
		return lo, nil
	}
	for lo < hi {
		middle := lo + (hi-lo)/2
		// or the next one that is there
		m, err := s.GetMsg(ctx, middle, jetstream.WithGetMsgSubject(stream.EventSubjects))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			hi = middle
		case err != nil:
			return 0, fmt.Errorf("read message %d of stream %s: %w", middle, stream.Events, err)
		case m.Time.Before(since):
			lo = min(m.Sequence+1, hi)
		default:
			hi = middle
		}
	}
	return lo, nil
}
