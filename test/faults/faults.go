package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a process may take to end after SIGTERM.
const stopGrace = 10 * time.Second

// saboteur injects faults, and measures how long it takes until the position
// moves again.
type saboteur struct {
	cluster *cluster
	watch   *watch
	out     io.Writer

	mu       sync.Mutex
	injected map[kind][]injection
	failures []string
}

// injection is what one fault did.
type injection struct {
	held    time.Duration // from its begin to its end
	silence time.Duration // from its begin until the position moved
	stuck   bool
}

// run injects faults until ctx ends, and returns when all that were begun are
// over.
func (s *saboteur) run(ctx context.Context, p *plan) {
	var joined sync.WaitGroup
	defer joined.Wait()
	for len(p.kinds) > 0 {
		f := p.next()
		select {
		case <-time.After(f.after):
		case <-ctx.Done():
			return
		}
		if f.joined {
			joined.Go(func() { s.one(f) })
			continue
		}
		s.one(f)
	}
}

// recoveryLimit is how long the position may stand still after a fault.
const recoveryLimit = 60 * time.Second

func (s *saboteur) one(f fault) {
	begin := time.Now()
	end, err := s.inject(f)
	if err != nil {
		s.fail("%s: %v", f.kind, err)
		return
	}
	over := make(chan time.Duration, 1)
	time.AfterFunc(f.lasts, func() {
		end()
		over <- time.Since(begin)
	})
	before := s.watch.decided()
	moved := s.watch.beyond(before, f.lasts+stopGrace*4+recoveryLimit)
	in := injection{silence: time.Since(begin), stuck: !moved, held: <-over}
	fmt.Fprintf(s.out, "%s %-16s held %5.1fs, position moves after %5.1fs\n",
		begin.Format(time.TimeOnly), f.kind, in.held.Seconds(), in.silence.Seconds())
	if in.stuck {
		s.fail("%s: the position stands still at %d", f.kind, before)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.injected[f.kind] = append(s.injected[f.kind], in)
}

func (s *saboteur) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

// inject begins a fault and returns what ends it.
func (s *saboteur) inject(f fault) (end func(), err error) {
	c := s.cluster
	switch f.kind {
	case killLeader:
		return kill(s.leader()), nil
	case killStandby:
		return kill(s.standby()), nil
	case killQuery:
		return kill(c.query), nil
	case killIngest:
		return kill(c.ingest), nil
	case killClickHouse:
		return kill(c.clickhouse), nil
	case killNATS:
		return kill(c.nats), nil
	case killAll:
		return kill(c.all()...), nil
	case stallLeader:
		return s.leader().pause(), nil
	case stallClickHouse:
		return c.clickhouse.pause(), nil
	case zombieInsert:
		return s.zombie(), nil
	case stallNATS:
		return c.nats.pause(), nil
	case cutClickHouse:
		return c.toClickHouse.cut(), nil
	case cutNATS:
		return c.toNATS.cut(), nil
	case muteClickHouse:
		return c.toClickHouse.mute(), nil
	case muteNATS:
		return c.toNATS.mute(), nil
	case loseKeys:
		leader := s.leader()
		end := kill(leader)
		return end, c.dropKeys(leader)
	case newProjector:
		return s.third(), nil
	case rolling:
		return s.roll(), nil
	}
	return nil, fmt.Errorf("no such fault")
}

// kill ends processes at once, and keeps them down until the end.
func kill(ps ...*process) (end func()) {
	var wg sync.WaitGroup
	for _, p := range ps {
		wg.Go(func() { p.hold(syscall.SIGKILL, stopGrace) })
	}
	wg.Wait()
	return func() {
		for _, p := range ps {
			p.release()
		}
	}
}

// leader is the projector that owns the slot group; the first, when none does.
func (s *saboteur) leader() *process {
	if p := s.cluster.owned(s.watch.owner()); p != nil {
		return p
	}
	return s.cluster.projectors[0]
}

func (s *saboteur) standby() *process {
	if s.leader() == s.cluster.projectors[0] {
		return s.cluster.projectors[1]
	}
	return s.cluster.projectors[0]
}

// zombie kills the leader while ClickHouse stands still: what the leader has
// sent is carried out when it goes on, however late.
func (s *saboteur) zombie() (end func()) {
	resume := s.cluster.clickhouse.pause()
	time.Sleep(300 * time.Millisecond) // for a batch to be sent meanwhile
	release := kill(s.leader())
	return func() {
		release()
		time.Sleep(time.Second) // for the successor to be at work by then
		resume()
	}
}

// third starts another projector and kills the leader, so that three compete.
func (s *saboteur) third() (end func()) {
	third, leader := s.cluster.projectors[2], s.leader()
	third.release()
	begin := kill(leader)
	return func() {
		begin()
		third.hold(syscall.SIGKILL, 0)
	}
}

// roll ends one role after the other by SIGTERM, each to come back before the
// next goes.
func (s *saboteur) roll() (end func()) {
	c := s.cluster
	for _, p := range []*process{c.ingest, c.projectors[0], c.projectors[1], c.query} {
		if !p.hold(syscall.SIGTERM, stopGrace) {
			s.fail("%s does not end within %s of SIGTERM", p.name, stopGrace)
		}
		p.release()
		time.Sleep(500 * time.Millisecond) // not to know when it is at work, but to spread the ends
	}
	return func() {}
}
