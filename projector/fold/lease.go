package fold

import (
	"context"
	"sync/atomic"
	"time"
)

// Pulse is when a session last renewed its lease. The zero value is silent. Its
// methods may be called at any time.
type Pulse struct{ at atomic.Pointer[time.Time] }

// NewPulse returns the pulse of a session that begins now.
func NewPulse() *Pulse {
	p := new(Pulse)
	p.Beat()
	return p
}

// Beat notes a sign of life.
func (p *Pulse) Beat() {
	now := time.Now()
	p.at.Store(&now)
}

// Silent tells whether the last sign of life is older than a time.
func (p *Pulse) Silent(limit time.Duration) bool {
	at := p.at.Load()
	return at == nil || time.Since(*at) > limit
}

// maxRenewals is for how many lease times an owner renews the lease in the middle
// of one step. An owner that takes longer may be stuck.
const maxRenewals = 20

// keeper keeps a lease.
type keeper struct {
	lease   Lease
	time    time.Duration // after which a silent owner loses it
	pulse   *Pulse
	failing func() bool
	began   time.Time // of the session
}

// sign notes that the lease was renewed, unless that failed.
func (k *keeper) sign(err error) error {
	if err == nil {
		k.pulse.Beat()
	}
	return err
}

// during renews the lease while a step runs, so that nobody else takes over and
// does the same just as slowly. A lease that is lost ends the step.
func (k *keeper) during(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin, done := time.Now(), make(chan error, 1)
	go func() { done <- step(ctx) }()
	tick := time.NewTicker(k.time / 3)
	defer tick.Stop()
	var lost error
	for {
		select {
		case err := <-done:
			if lost != nil {
				return lost
			}
			return err
		case <-tick.C:
			if ctx.Err() != nil {
				continue
			}
			if err := k.renew(ctx, begin); err != nil && ctx.Err() == nil {
				lost = err
				cancel(err)
			}
		}
	}
}

// renew renews the lease, unless the sink fails or a step that began at a time
// takes too long: then another owner may have more luck.
func (k *keeper) renew(ctx context.Context, began time.Time) error {
	if k.failing() || time.Since(began) > maxRenewals*k.time {
		return nil
	}
	return k.sign(k.lease.Renew(ctx))
}

// rest renews the lease of an idle session. While the sink fails it does not,
// though nothing is to be written: the view may need rows for its next batch.
func (k *keeper) rest(ctx context.Context, durable, caughtUp uint64) error {
	if k.failing() {
		return nil
	}
	if _, to := k.lease.Position(); to > durable { // the decided batch is not complete
		return k.renew(ctx, k.began)
	}
	return k.sign(k.lease.Done(ctx, durable, caughtUp))
}
