package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/client"
)

// The environment of a worker. Programs of other releases, and test/node/daemon.mjs, read it too.
const (
	envWorkRole    = "MILLRACE_WORK_ROLE" // go or http; Node has none
	envWorkName    = "MILLRACE_WORK_NAME"
	envWorkJournal = "MILLRACE_WORK_JOURNAL"
	envWorkLease   = "MILLRACE_WORK_LEASE" // seconds
	envWorkNATS    = "MILLRACE_WORK_NATS"  // login and address
	envWorkHTTP    = "MILLRACE_WORK_HTTP"
	envWorkQueues  = "MILLRACE_WORK_QUEUES" // with commas between
)

// workerUp is what a worker writes when it obeys SIGTERM.
const workerUp = "working"

// workerPart is a worker in a process of its own. It writes down what it does: a line is written
// whole, and is there when the process is killed after that.
type workerPart struct {
	name  string
	lease time.Duration
	mu    sync.Mutex
	file  *os.File
}

func newWorkerPart() (*workerPart, error) {
	seconds, err := strconv.ParseFloat(os.Getenv(envWorkLease), 64)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(os.Getenv(envWorkJournal), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &workerPart{
		name: fmt.Sprintf("%s-%d", os.Getenv(envWorkName), os.Getpid()), lease: time.Duration(seconds * float64(time.Second)), file: f,
	}, err
}

// Run works until SIGTERM.
func (w *workerPart) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	fmt.Fprintln(os.Stderr, workerUp)
	work := w.withClient
	if os.Getenv(envWorkRole) == "http" {
		work = w.overHTTP
	}
	g, ctx := errgroup.WithContext(ctx)
	for queue := range strings.SplitSeq(os.Getenv(envWorkQueues), ",") {
		g.Go(func() error { return work(ctx, queue) })
	}
	return g.Wait()
}

// note writes one line. Generation is that of an acknowledgement, else 0.
func (w *workerPart) note(what byte, p piece, generation int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := fmt.Fprintf(w.file, "%d %c %s %s %d %d\n", time.Now().UnixNano(), what, p.stage, p.file, p.shard, generation)
	if err != nil {
		panic(err)
	}
}

var errFirst = errors.New("the first attempt fails")

// failsFirst tells which pieces fail at first: one of ten that has a key.
func failsFirst(p piece) bool { return p.stage == parcelQueue && strings.HasSuffix(p.file, "0") }

// work works a piece for a moment. The first attempt at some pieces fails.
func (w *workerPart) work(p piece, attempt int) error {
	w.note('B', p, 0)
	time.Sleep(time.Millisecond)
	if attempt == 1 && failsFirst(p) {
		w.note('F', p, 0)
		return errFirst
	}
	w.note('E', p, 0)
	return nil
}

// noted is what an item is in the notes of workers: that of a user-defined queue has its key for a file.
func noted(queue, file string, shard int, key string) piece {
	if file == "" {
		return piece{key, 0, queue}
	}
	return piece{file, shard, queue}
}

func (w *workerPart) withClient(ctx context.Context, queue string) error {
	nc, err := connect("nats://" + os.Getenv(envWorkNATS))
	if err != nil {
		return err
	}
	defer nc.Close()
	return client.Work(ctx, nc, queue, func(_ context.Context, it client.Item) error {
		return w.work(noted(queue, it.Filename, it.Shard, it.Key), it.Attempt)
	}, client.WorkConfig{Worker: w.name + "-" + queue, Concurrency: 200, Lease: w.lease})
}

// overHTTP polls: it takes some items, works those that are its own for sure, and says so.
func (w *workerPart) overHTTP(ctx context.Context, queue string) error {
	c := &crew{
		notes: newWorkNotes(nil), ingest: []string{os.Getenv(envWorkHTTP)}, own: queue == parcelQueue, lease: w.lease,
		web: &http.Client{Timeout: 8 * time.Second},
	}
	for ctx.Err() == nil {
		asked := time.Now()
		items := c.take(ctx, queue, w.name, 10)
		for _, it := range items {
			if time.Since(asked) > w.lease/2 {
				break
			}
			if err := w.workTaken(context.WithoutCancel(ctx), c, queue, it); err != nil {
				return err
			}
		}
		if len(items) == 0 {
			wait(ctx, 100*time.Millisecond)
		}
	}
	return nil
}

// workTaken works an item, and says so until it is answered: that it is recorded, or
// that another worker holds the item.
func (w *workerPart) workTaken(ctx context.Context, c *crew, queue string, it takenItem) error {
	p := noted(queue, it.Filename, it.Shard, it.Key)
	move, more := "done", map[string]any{}
	if err := w.work(p, it.Attempt); err != nil {
		move, more["error"] = "fail", err.Error()
	}
	path, body := c.about(taking{piece: c.piece(queue, it), worker: w.name, generation: it.Generation}, move, more)
	switch r := c.insist(ctx, path, body, nil); {
	case r.status == http.StatusConflict:
	case r.status != http.StatusOK:
		return fmt.Errorf("%s: status %d", path, r.status)
	case move == "done":
		w.note('A', p, it.Generation)
	}
	return nil
}
