package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// How far a clock may jump, either way.
const (
	farthest = 400 * 24 * time.Hour
	// farthestBroker keeps dead letters, which have an age limit of 90 days.
	farthestBroker = 60 * 24 * time.Hour
)

// clocked are the processes whose clocks are moved.
func (c *cluster) clocked() []*process {
	ps := append([]*process{c.clickhouse, c.postgres, c.ingest, c.otherIngest, c.query}, c.projectors...)
	return append(ps, c.brokers()...)
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
		if err := p.clock.step(ahead); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(s.out, "%s the clock of %s is set to %s\n", time.Now().Format(time.TimeOnly), p.name, signed(p.clock.ahead))
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
	for _, p := range ps {
		if p.clock == nil {
			continue
		}
		if err := p.clock.step(0); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
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
