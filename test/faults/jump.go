package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// How far a clock may jump, either way.
const (
	farthest = 400 * 24 * time.Hour
	// farthestBroker keeps what happens to sources, which has an age limit of 30 days.
	farthestBroker = 14 * 24 * time.Hour
	// farthestPostgres keeps the due times of jobs to some hundreds each: whatever its
	// clock passes over is decided, and jobs are due again when it comes there again.
	farthestPostgres = 10 * time.Hour
)

// clocked are the processes whose clocks are moved.
func (c *cluster) clocked() []*process {
	ps := append([]*process{c.clickhouse, c.postgres, c.ingest, c.otherIngest, c.query}, c.projectors...)
	return slices.Concat(ps, c.schedulers, c.brokers())
}

func (c *cluster) brokers() []*process {
	if c.nodes != nil {
		return c.nodes.processes
	}
	return []*process{c.nats}
}

// moveClocks has the clocks of one process or of all jump. At its end they jump
// back, or stay wrong, so that other faults find them so, until their next jump
// or the end of all faults.
func (s *saboteur) moveClocks(f fault) (end func() error, err error) {
	random := rand.New(rand.NewPCG(f.seed, 5))
	ps := s.cluster.clocked()
	if f.kind == jumpClock {
		ps = ps[random.IntN(len(ps)):][:1]
	}
	for _, p := range ps {
		ahead := s.leap(p, random)
		if err := s.step(p, ahead); err != nil {
			return nil, err
		}
		fmt.Fprintf(s.out, "%s the clock of %s is set to %s\n", time.Now().Format(time.TimeOnly), p.name,
			signed(p.clock.ahead))
	}
	stay := random.IntN(2) == 0
	return func() error {
		if stay {
			return nil
		}
		return s.right(ps)
	}, nil
}

// leap is how far ahead a clock is set: of any order of magnitude, either way.
func (s *saboteur) leap(p *process, random *rand.Rand) time.Duration {
	limit := farthest
	if p == s.cluster.postgres {
		limit = farthestPostgres
	}
	for _, broker := range s.cluster.brokers() {
		if p == broker {
			limit = farthestBroker
		}
	}
	leap := time.Duration(float64(time.Second) * math.Pow(limit.Seconds(), random.Float64()))
	if random.IntN(2) == 0 {
		return -leap
	}
	return leap
}

func signed(d time.Duration) string {
	if d < 0 {
		return fmt.Sprint(d)
	}
	return fmt.Sprint("+", d)
}

func (s *saboteur) right(ps []*process) error {
	var errs []error
	for _, p := range ps {
		if p.clock != nil {
			errs = append(errs, s.step(p, 0))
		}
	}
	return errors.Join(errs...)
}

// step sets a clock. All that a broker has is old at once when its clock jumps
// ahead, and goes as soon as it is folded: so it is copied before.
func (s *saboteur) step(p *process, ahead time.Duration) error {
	var behind error
	if slices.Contains(s.cluster.brokers(), p) {
		ctx, cancel := context.WithTimeout(context.Background(), recoveryLimit)
		defer cancel()
		behind = s.tape.level(ctx)
	}
	if err := errors.Join(behind, p.clock.step(ahead)); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// rightClocks sets all clocks right.
func (s *saboteur) rightClocks() {
	if err := s.right(s.cluster.clocked()); err != nil {
		s.fail("set the clocks right: %v", err)
	}
}

// latest is after all that can count: an event that is days ahead does when a
// broker whose clock is fast receives it.
const latest = 5 * 24 * time.Hour
