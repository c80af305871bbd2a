package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
	tape    *tape
	shards  *shards    // nil: they are not worked
	crawls  *crawls    // nil: there are no jobs
	batches *batchLoad // nil: there are no batches
	uploads *uploadLoad
	out     io.Writer

	failing  sync.Mutex // held while a system fails
	mu       sync.Mutex
	injected map[kind][]injection
	failures []string
}

// injection is what one fault did.
type injection struct {
	begin   time.Time
	held    time.Duration // from its begin to its end
	silence time.Duration // from its begin until the position moved
	stuck   bool
}

// recovery is how long after its end the position moved; 0 when it never stood
// still.
func (i injection) recovery() time.Duration { return max(0, i.silence-i.held) }

// covers tells whether a moment lies within the fault and its recovery.
func (i injection) covers(at time.Time) bool {
	return !at.Before(i.begin) && at.Before(i.begin.Add(max(i.held, i.silence)))
}

// run injects faults until ctx ends, and returns when all that were begun are
// over.
func (s *saboteur) run(ctx context.Context, p *plan) {
	var joined sync.WaitGroup
	defer s.rightClocks()
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

// recoveryLimit is how long the position may not move after a fault.
const recoveryLimit = 60 * time.Second

func (s *saboteur) one(f fault) {
	begin := time.Now()
	end, err := s.inject(f)
	if errors.Is(err, errOneGroup) {
		fmt.Fprintf(s.out, "%s %-19s is left out: %v\n", begin.Format(time.TimeOnly), f.kind, err)
		return
	}
	if err != nil {
		s.fail("%s: %v", f.kind, err)
		return
	}
	over := make(chan time.Duration, 1)
	time.AfterFunc(f.lasts, func() {
		if err := end(); err != nil {
			s.fail("end of %s: %v", f.kind, err)
		}
		over <- time.Since(begin)
	})
	before := s.watch.decided()
	limit := f.lasts + stopGrace*4 + recoveryLimit
	moved := s.watch.beyond(before, limit) && (!ofShards(f.kind) || s.shards == nil || s.shards.beyond(begin, limit)) &&
		(!ofJobs(f.kind) || s.crawls == nil || s.crawls.beyond(begin, limit)) &&
		(!ofBatches(f.kind) || s.batches == nil || s.batches.beyond(begin, limit))
	in := injection{begin: begin, silence: time.Since(begin), stuck: !moved, held: <-over}
	fmt.Fprintf(s.out, "%s %-19s held %5.1fs, position moves after %5.1fs\n",
		begin.Format(time.TimeOnly), f.kind, in.held.Seconds(), in.silence.Seconds())
	if in.stuck {
		s.fail("%s: the position does not move at %v, or the work of shards, jobs or batches does", f.kind, before)
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
func (s *saboteur) inject(f fault) (end func() error, err error) {
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
	case stuckClickHouse:
		return c.stick()
	case killNATS:
		return kill(c.nats), nil
	case killPostgres:
		return kill(c.postgres), nil
	case killUnacked:
		return doom(s.leader())
	case killAll:
		return kill(c.all()...), nil
	case stallLeader:
		return s.leader().pause(), nil
	case stallClickHouse:
		return c.clickhouse.pause(), nil
	case zombieInsert:
		return s.zombie(f)
	case stallNATS:
		return c.nats.pause(), nil
	case killNode:
		return kill(c.nodes.leader(s.watch.js, f.seed%2 == 0)), nil
	case stallNode:
		return c.nodes.leader(s.watch.js, true).pause(), nil
	case unplugAll:
		return unplug(c.all()...)
	case unplugNATS:
		return unplug(c.nats)
	case unplugClickHouse:
		return unplug(c.clickhouse)
	case unplugLeader:
		return unplug(s.leader())
	case unplugNode:
		return unplug(c.nodes.leader(s.watch.js, f.seed%2 == 0))
	case partitionNode:
		return c.nodes.partition(c.nodes.leader(s.watch.js, true))
	case loseKeys:
		leader := s.leader()
		end := kill(leader)
		return end, c.dropKeys(leader)
	case rotKeys:
		leader := s.leader()
		end := kill(leader)
		return end, c.rotKeys(leader, rand.New(rand.NewPCG(f.seed, 3)))
	case newProjector:
		return s.third(), nil
	case rolling:
		return s.roll(), nil
	case rebalance:
		return s.rebalance()
	case regroup:
		return s.regroup(f)
	case killRegroup:
		return s.killRegroup(f)
	case fullClickHouse:
		return c.clickhouse.disk.fill(clickhouseSpare)
	case fullNATS:
		return c.fullNATS()
	case fullKeys:
		return s.fullKeys()
	case jumpClock, skewClocks:
		return s.moveClocks(f)
	}
	return s.disturb(f)
}

// disturb begins a fault of a connection, or of what the database lets in.
func (s *saboteur) disturb(f fault) (end func() error, err error) {
	c, random := s.cluster, rand.New(rand.NewPCG(f.seed, 4))
	switch f.kind {
	case cutClickHouse:
		return c.toClickHouse.cut()
	case cutNATS:
		return c.toNATS.cut()
	case muteClickHouse:
		return c.toClickHouse.mute()
	case muteNATS:
		return c.toNATS.mute()
	case delayClickHouse:
		return c.toClickHouse.delay(time.Duration(100+random.IntN(400)) * time.Millisecond)
	case delayNATS:
		return c.toNATS.delay(time.Duration(50+random.IntN(150)) * time.Millisecond)
	case throttleClickHouse:
		return c.toClickHouse.throttle(20 + random.IntN(60))
	case throttleNATS:
		return c.toNATS.throttle(50 + random.IntN(100))
	case tearClickHouse:
		return c.toClickHouse.tear(1 + random.IntN(100_000))
	case tearNATS:
		return c.toNATS.tear(1 + random.IntN(100_000))
	case resetClickHouse:
		return c.toClickHouse.reset(time.Duration(random.IntN(300)) * time.Millisecond)
	case resetNATS:
		return c.toNATS.reset(time.Duration(random.IntN(300)) * time.Millisecond)
	case refuseParts:
		return c.tableSettings("parts_to_delay_insert = 1, parts_to_throw_insert = 1")
	case readOnly:
		return c.tableSettings("table_readonly = 1")
	default:
		return s.disturbLeader(f)
	}
}

// disturbLeader begins a fault of what leads to the leader alone: the others
// reach everything, and go on.
func (s *saboteur) disturbLeader(f fault) (end func() error, err error) {
	to, random := s.leader().links, rand.New(rand.NewPCG(f.seed, 4))
	switch f.kind {
	case cutLeaderNATS:
		return to.nats.cut()
	case muteLeaderNATS:
		return to.nats.mute()
	case cutLeaderClickHouse:
		return to.clickhouse.cut()
	case muteLeaderClickHouse:
		return to.clickhouse.mute()
	case delayLeaderClickHouse:
		return to.clickhouse.delay(time.Duration(200+random.IntN(2000)) * time.Millisecond)
	case lateInsert:
		return to.late()
	default:
		return s.disturbShards(f)
	}
}

// late holds back what is said to ClickHouse, and cuts NATS off: rows that are
// under way come when another projector has taken over.
func (l links) late() (end func() error, err error) {
	arrive, err := l.clickhouse.delay(lease * 2 / 3)
	if err != nil {
		return nil, err
	}
	mend, err := l.nats.cut()
	return func() error { return errors.Join(mend(), arrive()) }, err
}

// kill ends processes at once, and keeps them down until the end.
func kill(ps ...*process) (end func() error) {
	var wg sync.WaitGroup
	for _, p := range ps {
		wg.Go(func() { p.hold(syscall.SIGKILL, stopGrace) })
	}
	wg.Wait()
	return func() error {
		for _, p := range ps {
			p.release()
		}
		return nil
	}
}

// unplug cuts the power of processes and their disks, and keeps them down until
// the end. What is not synced is forgotten.
func unplug(ps ...*process) (end func() error, err error) {
	var errs []error
	for _, p := range ps { // nothing is said to others that a disk has not kept
		_, err := p.pauseTree()
		errs = append(errs, err)
	}
	for _, p := range ps {
		if p.disk != nil {
			errs = append(errs, p.disk.cutPower())
		}
	}
	end = kill(ps...)
	for _, p := range ps {
		if p.disk != nil {
			errs = append(errs, p.disk.restart())
		}
	}
	return end, errors.Join(errs...)
}

// fullNATS fills the disk of NATS, whose server may lock itself up then, and end
// for it.
func (c *cluster) fullNATS() (end func() error, err error) {
	excused := c.nats.excuse()
	empty, err := c.nats.disk.fill(0)
	return func() error {
		err := empty()
		time.AfterFunc(2*stopGrace, excused) // it gives itself ten seconds
		return err
	}, err
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

// zombie keeps the rows of an insert on their way to ClickHouse, kills or stops
// the projector that has sent them, and lets them through when another one has
// completed the batch, so that they land beside its own.
func (s *saboteur) zombie(f fault) (end func() error, err error) {
	if err := s.right(s.cluster.brokers()); err != nil { // by a wrong clock no event may count
		return nil, err
	}
	sender := s.leader()
	late, free, err := sender.links.clickhouse[0].keepRows()
	if err != nil {
		return nil, err
	}
	kept := late.insert(recoveryLimit)
	if kept == nil {
		return nil, errors.Join(errors.New("no insert is under way"), free())
	}
	var back func() error
	if f.seed%2 == 0 {
		back = kill(sender)
	} else {
		back = sender.pause()
	}
	return func() error {
		if !within(recoveryLimit, func() bool { return s.watch.completed(kept) }) {
			return errors.Join(fmt.Errorf("nobody completes %+v", *kept), free(), back())
		}
		return errors.Join(s.arrive(free), back())
	}, nil
}

// clickhouseSpare is less than what ClickHouse wants to see before it begins to
// write, and lets it complete what it has begun: a merge for which there is no
// room left in its middle has been seen to leave a part without content.
const clickhouseSpare = 900 << 10

// fullKeys fills the disk of the leader, which has to start again on it.
func (s *saboteur) fullKeys() (end func() error, err error) {
	leader := s.leader()
	begin := kill(leader)
	empty, err := leader.disk.fill(0)
	return empty, errors.Join(err, begin())
}

// third starts another projector and kills the leader, so that three compete.
func (s *saboteur) third() (end func() error) {
	third, leader := s.cluster.projectors[2], s.leader()
	third.release()
	begin := kill(leader)
	return func() error {
		third.hold(syscall.SIGKILL, 0)
		return begin()
	}
}

// errOneGroup says why nothing is rebalanced.
var errOneGroup = errors.New("there is one slot group now, which nobody shares")

// rebalance goes from two projectors to one, to four, and back to one, while
// events flow. At its end there are two again.
func (s *saboteur) rebalance() (end func() error, err error) {
	if len(s.watch.last()) < 2 { // the number has been changed
		return nil, errOneGroup
	}
	ps := s.cluster.projectors
	s.endInTime(ps[1])
	s.awaitShared(1)
	for _, p := range ps[1:] {
		p.release()
	}
	s.awaitShared(len(ps))
	return func() error {
		for _, p := range ps[1:] {
			s.endInTime(p)
		}
		s.awaitShared(1)
		ps[1].release()
		return nil
	}, nil
}

// awaitShared waits until so many projectors share the slot groups.
func (s *saboteur) awaitShared(projectors int) {
	if !s.watch.shared(projectors, recoveryLimit) {
		s.fail("rebalance: the slot groups are not shared by %d projectors: %+v", projectors, s.watch.last())
	}
}

// endInTime ends a process by SIGTERM and holds it down.
func (s *saboteur) endInTime(p *process) {
	if !p.hold(syscall.SIGTERM, stopGrace) {
		s.fail("%s does not end within %s of SIGTERM", p.name, stopGrace)
	}
}

// roll ends one role after the other by SIGTERM, each to come back before the
// next goes.
func (s *saboteur) roll() (end func() error) {
	c := s.cluster
	for _, p := range append([]*process{c.ingest, c.projectors[0], c.projectors[1], c.query}, c.schedulers...) {
		s.endInTime(p)
		p.release()
		time.Sleep(500 * time.Millisecond) // not to know when it is at work, but to spread the ends
	}
	return func() error { return nil }
}
