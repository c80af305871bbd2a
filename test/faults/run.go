package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Limits that a busy machine does not reach.
const (
	startLimit = 90 * time.Second
	drainLimit = 4 * time.Minute // for all that was sent to be acknowledged
	foldLimit  = 90 * time.Second
	checkLimit = 10 * time.Minute
)

// trial is one execution of the program.
type trial struct {
	cfg        config
	out        io.Writer
	cluster    *cluster
	ledger     *ledger
	js         jetstream.JetStream
	publishing *nats.Conn
	watch      *watch
	tape       *tape // nil in a soak
	live       *live
	pubs       *publishers
	sab        *saboteur
	early      []workload
	late       []workload // which a release to upgrade from may not have
}

// run breaks an installation in a folder of its own and reports what was
// found. The error is that of a trial which could not be carried out.
func run(ctx context.Context, cfg config, out io.Writer) (r *report, err error) {
	dir, remove, err := cfg.folder()
	if err != nil {
		return nil, err
	}
	defer func() {
		if told := remove(err != nil || r.failed()); told != "" {
			fmt.Fprintln(out, told)
		}
	}()
	fmt.Fprintf(out, "seed %d: faults -seed %d -for %s -rate %d -groups %d -nodes %d%s%s repeats this history and "+
		"plan, but not their timing\n",
		cfg.seed, cfg.seed, cfg.length, cfg.rate, cfg.groups, cfg.nodes, cfg.peer.flag(), cfg.planFlags())
	if err := cfg.fit(out); err != nil {
		return nil, err
	}
	bin, err := cfg.binary(ctx, dir)
	if err == nil {
		err = cfg.buildPeer(ctx, dir)
	}
	if err != nil {
		return nil, err
	}
	t, err := newTrial(cfg, dir, bin, out)
	if err != nil {
		return nil, err
	}
	defer t.js.Conn().Close()
	defer t.publishing.Close()
	defer t.tape.close()
	r, err = t.run(ctx)
	return r, errors.Join(err, t.cluster.removeDisks(err != nil || r.failed() || cfg.keep))
}

func newTrial(cfg config, dir, bin string, out io.Writer) (*trial, error) {
	c, err := newCluster(dir, bin, cfg)
	if err != nil {
		return nil, err
	}
	nc, err := connect(c.natsURL()) // what observes is not cut off
	if err != nil {
		return nil, err
	}
	publishing, err := connect(c.publishURL())
	if err != nil {
		return nil, err
	}
	t := &trial{cfg: cfg, out: out, cluster: c, ledger: newLedger(), live: newLive(c.queryAddr), publishing: publishing}
	if cfg.soak {
		t.ledger = newTotals()
	}
	if t.js, err = jetstream.New(nc); err != nil {
		return nil, err
	}
	if t.pubs, err = newPublishers(t.ledger, publishing, c.ingestAddr); err != nil {
		return nil, err
	}
	if !cfg.soak {
		if t.tape, err = newTape(t.js, c.natsURLs()); err != nil {
			return nil, err
		}
	}
	t.pubs.clock = c.ingest.clock
	t.watch = &watch{js: t.js, peer: cfg.peer}
	t.sab = &saboteur{cluster: c, watch: t.watch, tape: t.tape, out: out, injected: map[kind][]injection{}}
	if s := t.sab; cfg.whole() {
		s.shards, s.crawls = newShards(cfg.seed, c, t.js), newCrawls(cfg.seed, c, t.js)
		s.batches, s.uploads = newBatchLoad(cfg.seed, c, t.js), newUploadLoad(cfg.seed, c, cfg.uploadRows)
		t.early, t.late = []workload{s.shards, s.crawls}, []workload{s.batches, s.uploads}
	}
	if cfg.work > 0 {
		t.sab.shards = newShards(cfg.seed, c, t.js)
		t.sab.shards.apart = true
		workers, err := newWorkers(cfg, t.sab)
		if err != nil {
			return nil, err
		}
		t.early = []workload{t.sab.shards, workers}
	}
	return t, nil
}

// run starts everything, and ends it again before it returns.
func (t *trial) run(ctx context.Context) (*report, error) {
	parts, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	var broken error
	wg.Go(func() { broken = t.cluster.run(parts) })
	wg.Go(func() { t.watch.run(parts) })
	if t.tape != nil {
		wg.Go(func() { t.tape.run(parts) })
	}
	if t.cfg.peer == noPeer {
		wg.Go(func() { t.live.run(parts) })
	}
	defer wg.Wait()
	defer end()
	r, err := t.act(ctx)
	if err == nil {
		for _, p := range t.cluster.all() {
			r.failures = append(r.failures, p.misfortunes()...)
		}
	}
	end()
	wg.Wait()
	if broken != nil {
		return nil, broken
	}
	return r, err
}

// act publishes and breaks, waits until all is well, and compares.
func (t *trial) act(ctx context.Context) (*report, error) {
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	warm := newHistory(t.cfg.seed, t.cfg.rate, time.Now())
	warm.calm = t.cfg.soak || t.cfg.peer != noPeer
	t.pubs.withIDs = t.cfg.peer != noPeer
	if t.cfg.soak {
		warm.pool, warm.late, warm.aged = soakPool, soakLate, soakAged
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	patience, giveUp := context.WithCancel(ctx)
	defer giveUp()
	drained := make(chan error, 1)
	go func() { drained <- t.pubs.run(sending, patience, warm) }()
	if err := errors.Join(t.cluster.makeTables(starting), t.watch.begun(starting)); err != nil {
		return nil, err
	}
	if t.cfg.soak { // what starts late would be taken for what grows
		t.sab.allUp("before the first sample")
	}
	acting, cancelActing := context.WithTimeout(ctx, t.cfg.length)
	defer cancelActing()
	early := begin(ctx, t.early)
	defer early.abandon()
	since := time.Now()
	if t.cfg.from != "" {
		t.sab.upgrade(acting, t.cfg.length/4, rand.New(rand.NewPCG(t.cfg.seed, 6)))
	}
	late := begin(ctx, t.late)
	defer late.abandon()
	analysing, stopAnalyser := context.WithCancel(ctx)
	defer stopAnalyser()
	if t.sab.batches != nil { // what is compared is analysed yet
		go t.sab.batches.analyser.run(analysing)
	}
	plan := newPlan(t.cfg.seed, t.cfg.kinds)
	plan.overlap = t.cfg.overlap
	t.sab.run(acting, plan)
	var grown []string
	if t.cfg.soak {
		s := soak{cluster: t.cluster, js: t.js}
		s.run(acting, t.cfg.length)
		grown = s.judge(t.out, t.cfg.length)
	}
	<-acting.Done()
	if ctx.Err() == nil && t.cfg.whole() {
		t.sab.alone()
		t.sab.allUp("at the end")
	}
	stop()
	time.AfterFunc(drainLimit, giveUp)
	r := &report{seed: t.cfg.seed, length: time.Since(since), injected: t.sab.injected, failures: grown}
	if err := <-drained; err != nil {
		r.failures = append(r.failures, "publishers: "+err.Error())
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := append(early, late...).end(ctx, r, t.cfg.uploadRows); err != nil {
		return nil, err
	}
	return r, t.conclude(ctx, r)
}

func (t *trial) conclude(ctx context.Context, r *report) (err error) {
	if t.cfg.work > 0 { // of another release, maybe
		r.failures = append(r.failures, t.sab.failures...)
		return nil
	}
	folding, cancel := context.WithTimeout(ctx, foldLimit)
	defer cancel()
	begin := time.Now()
	if err := t.watch.folded(folding); err != nil {
		r.failures = append(r.failures, err.Error())
	}
	r.folding = time.Since(begin)
	if t.tape != nil {
		r.failures = append(r.failures, t.judgeStream(ctx)...)
	}
	checking, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	if t.cfg.peer != noPeer {
		r.verdict, err = t.concludePeer(checking)
	} else if t.cfg.soak {
		r.verdict, err = checkTotals(checking, t.cluster, t.ledger, t.live)
	} else {
		var j *journal
		if j, err = t.ledger.read(checking, t.js, t.tape); err != nil {
			return err
		}
		r.verdict, err = check(checking, t.cluster, t.ledger, j, t.live, t.watch.alone())
	}
	r.messages, r.connects = t.ledger.acks, t.live.connects
	r.failures = append(append(r.failures, t.sab.failures...), t.ledger.failures...)
	return err
}

// judgeStream says what is wrong with the event stream: its copy has to be whole,
// what is there still has to be what was copied, and what is old has to be gone,
// where somebody removes it.
func (t *trial) judgeStream(ctx context.Context) (wrong []string) {
	comparing, cancel := context.WithTimeout(ctx, recoveryLimit)
	defer cancel()
	wrong = t.tape.verify(comparing)
	if t.cfg.peer == noPeer {
		removing, cancel := context.WithTimeout(ctx, recoveryLimit)
		defer cancel()
		if err := t.tape.aged(removing); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	return wrong
}
