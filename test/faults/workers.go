package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// workersLease is longer than that of other work: by their notes, no two workers may have an
	// item at a time, and a fault must not outlast it.
	workersLease = 20 * time.Second
	// killWorkerEvery is how often a worker is killed, on average: the first times one that has a
	// piece in hand, as soon as there is one.
	killWorkerEvery = time.Second
	killsInHand     = 3
)

// workersFaults are the kinds that act on workers unless others are named.
var workersFaults = []kind{killNATS, killIngest, killPostgres, killAll}

// workers is the workload of -work: processes in Go, in Node with a stock client of NATS, and
// over HTTP work on the shards of files and on items of a user-defined queue. They are killed,
// too.
type workers struct {
	*crew
	sab    *saboteur
	dsn    recordOf
	items  int
	staff  []*worker
	killed int

	mu    sync.Mutex
	added map[int64]string // acknowledged: id → key
}

// worker is one place among the workers. Its process is started again when it was killed.
type worker struct {
	*process
	journal string
}

func newWorkers(cfg config, s *saboteur) (*workers, error) {
	c := s.cluster
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &workers{
		crew: newCrew(cfg.seed, c, newWorkNotes(nil)), sab: s, dsn: recordOf(c.postgresURL(c.postgresAddr)), items: cfg.work,
		added: map[int64]string{},
	}
	w.web.Timeout = enqueueWait
	for i, role := range []string{"go", "go", "node", "node", "http", "http"} {
		name := fmt.Sprint(role, i)
		bin, up, args, journal := self, workerUp, []string(nil), filepath.Join(c.dir, name+".notes")
		switch {
		case role == "node":
			bin, args = "node", []string{filepath.Join(cfg.node, "daemon.mjs")}
		case i%2 == 1 && cfg.clients != "":
			bin, up = cfg.clients, ""
		}
		w.staff = append(w.staff, &worker{newProcess(c.dir, name, bin, up, []string{
			envPart + "=worker", envWorkRole + "=" + role, envWorkName + "=" + name, envWorkJournal + "=" + journal,
			envWorkLease + fmt.Sprint("=", workersLease.Seconds()), envWorkNATS + "=" + strings.TrimPrefix(w.workURL, "nats://"),
			envWorkHTTP + "=" + w.ingest[i%2], envWorkQueues + "=" + strings.Join(append(slices.Clone(shardStages), parcelQueue), ","),
		}, args...), journal})
	}
	return w, nil
}

func (w *workers) run(killing, working context.Context) error {
	w.demand(working, http.MethodPost, "/queues", map[string]any{
		"name": parcelQueue, "max_attempts": 0, "lease_s": workersLease.Seconds(), "backoff_s": []float64{1},
	}, nil)
	g, working := errgroup.WithContext(working)
	for _, one := range w.staff {
		g.Go(func() error { return one.run(working) })
	}
	items := w.items
	g.Go(func() error { return w.add(working, 0, items) })
	g.Go(func() error { w.kill(killing); return nil })
	return g.Wait()
}

// kill kills a worker now and then until killing ends.
func (w *workers) kill(killing context.Context) {
	random := rand.New(rand.NewPCG(w.seed, 100))
	for killing.Err() == nil {
		one := w.staff[random.IntN(len(w.staff))]
		if one.pid() == 0 || w.killed < killsInHand && !one.strike() {
			wait(killing, time.Millisecond)
			continue
		}
		one.signal(syscall.SIGKILL)
		w.killed++
		wait(killing, time.Duration(random.ExpFloat64()*float64(killWorkerEvery)))
	}
}

// strike kills the worker if it has a piece in hand. It stands still while its notes are
// read.
func (w *worker) strike() bool {
	defer w.pause()()
	s := newWorkerSpans()
	if w.read(s) != nil {
		return false
	}
	now, _ := s.inHand()
	if now > 0 {
		w.signal(syscall.SIGKILL)
	}
	return now > 0
}

// finish waits until all items are done, has more of them worked, and ends the workers.
func (w *workers) finish(ctx context.Context) (err error) {
	if err = untilHolds(ctx, w.left); err != nil {
		err = fmt.Errorf("the items are not done: %w", err)
	} else {
		err = w.workMore(ctx)
	}
	for _, one := range w.staff {
		if !one.hold(syscall.SIGTERM, stopGrace) {
			w.notes.fail("%s does not end within %s of SIGTERM", one.name, stopGrace)
		}
	}
	return err
}

// mostMore is how many items are added at most when the faults are over.
const mostMore = 3000

// workMore adds items after the last fault. All of them have to be done before the lease of any can end:
// an item that is lost on its way to a worker comes back when its lease ends.
func (w *workers) workMore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, workersLease)
	defer cancel()
	first := w.items
	w.items += min(first, mostMore)
	err := w.add(ctx, first, w.items)
	if err == nil {
		err = untilHolds(ctx, w.left)
	}
	if err != nil {
		err = fmt.Errorf("nothing was killed, and some items waited for a lease to end: %w", err)
	}
	return err
}

// away are the times in which NATS was, and some time after each.
func (s *saboteur) away() (all []absence) {
	for k, list := range s.injected {
		if k != killAll && k != unplugAll && !strings.Contains(string(k), "nats") && !strings.HasSuffix(string(k), "node") {
			continue
		}
		for _, in := range list {
			all = append(all, absence{in.begin, in.begin.Add(max(in.held, in.silence) + workersLease)})
		}
	}
	return all
}

// workersVerdict is what the comparison of what workers did found.
type workersVerdict struct {
	pieces         int
	by             map[string]int // pieces that each worked
	again          int            // worked again, since something died between the end and the record of it
	killed, inHand int            // workers, and pieces that they had then
	differences
}

func (v *workersVerdict) String() string {
	return fmt.Sprintf("workers: %d pieces, by %s; %d workers killed, %d pieces in their hands; %d pieces worked again",
		v.pieces, strings.Trim(fmt.Sprint(v.by), "map[]"), v.killed, v.inHand, v.again)
}

// check holds the notes of workers, and what is stored of the items, to what was added.
func (w *workers) check(ctx context.Context) (finding, error) {
	v, s := &workersVerdict{killed: w.killed, pieces: w.items}, newWorkerSpans()
	for _, f := range w.sab.shards.notes.files {
		v.pieces += len(shardStages) * len(f.shards)
	}
	for _, one := range w.staff {
		if err := one.read(s); err != nil {
			return finding{}, err
		}
		v.mismatches = append(v.mismatches, one.misfortunes()...)
	}
	s.judge(v, w.sab.away())
	if len(s.of) != v.pieces {
		v.wrong("%d pieces were worked, not %d", len(s.of), v.pieces)
	}
	for pair := range slices.Chunk(w.staff, 2) {
		if a, b := pair[0].name, pair[1].name; v.by[a]+v.by[b] == 0 {
			v.wrong("no piece was worked by %s or %s", a, b)
		}
	}
	if _, v.inHand = s.inHand(); v.inHand == 0 {
		v.wrong("no worker was killed with a piece in hand")
	}
	err := w.compareItems(ctx, v)
	v.mismatches = append(v.mismatches, w.notes.failures...)
	return finding{v, "what workers did differs", v.mismatches}, err
}
