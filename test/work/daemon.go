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

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/client"
)

// The environment of a daemon.
const (
	envRole    = "MILLRACE_WORK_ROLE" // go or http; Node daemons have none
	envName    = "MILLRACE_WORK_NAME"
	envJournal = "MILLRACE_WORK_JOURNAL"
	envLease   = "MILLRACE_WORK_LEASE" // seconds
	envNATS    = "MILLRACE_WORK_NATS"
	envHTTP    = "MILLRACE_WORK_HTTP"
	envQueues  = "MILLRACE_WORK_QUEUES" // with commas between
)

// labour is how long an item takes.
const labour = time.Millisecond

// notes are where a daemon writes down what it does. A line is written whole,
// and is there when the daemon is killed after that.
type notes struct {
	mu   sync.Mutex
	file *os.File
}

func openNotes() (*notes, error) {
	f, err := os.OpenFile(os.Getenv(envJournal), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &notes{file: f}, err
}

// write writes one line. Generation is that of an acknowledgement, else 0.
func (n *notes) write(what byte, p piece, generation int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, err := fmt.Fprintf(n.file, "%d %c %s %s %d %d\n", time.Now().UnixNano(), what, p.stage, p.filename,
		p.shard, generation)
	if err != nil {
		panic(err)
	}
}

var errVain = errors.New("the first attempt is in vain")

// work works a piece. The first attempt at some pieces fails.
func (n *notes) work(p piece, attempt int) error {
	n.write('B', p, 0)
	time.Sleep(labour) // the work
	if attempt == 1 && inVain(p) {
		n.write('F', p, 0)
		return errVain
	}
	n.write('E', p, 0)
	return nil
}

func runDaemon(role string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	n, err := openNotes()
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(os.Getenv(envLease), 64)
	if err != nil {
		return err
	}
	lease := time.Duration(seconds * float64(time.Second))
	g, ctx := errgroup.WithContext(ctx)
	for queue := range strings.SplitSeq(os.Getenv(envQueues), ",") {
		g.Go(func() error {
			if role == "go" {
				return workWithClient(ctx, queue, lease, n)
			}
			return workWithHTTP(ctx, queue, lease, n)
		})
	}
	return g.Wait()
}

func workWithClient(ctx context.Context, queue string, lease time.Duration, n *notes) error {
	nc, err := nats.Connect("nats://"+os.Getenv(envNATS), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	defer nc.Close()
	return client.Work(ctx, nc, queue, func(_ context.Context, item client.Item) error {
		if item.Filename == "" {
			return n.work(piece{stage: queue, filename: item.Key}, item.Attempt)
		}
		return n.work(piece{queue, item.Filename, item.Shard}, item.Attempt)
	}, client.WorkConfig{
		Worker:      os.Getenv(envName) + "-" + queue + "-" + strconv.Itoa(os.Getpid()),
		Concurrency: 10, Lease: lease,
	})
}

// taken is an item as take over HTTP has it: a shard, or one of a queue of one's
// own.
type taken struct {
	Filename   string `json:"filename"`
	Shard      int    `json:"shard"`
	ID         int64  `json:"id"`
	Key        string `json:"key"`
	Generation int    `json:"generation"`
	Attempt    int    `json:"attempt"`
}

// workWithHTTP polls: it takes some items, works them, and says so.
func workWithHTTP(ctx context.Context, queue string, lease time.Duration, n *notes) error {
	in := &installation{http: os.Getenv(envHTTP)}
	worker := os.Getenv(envName) + "-" + strconv.Itoa(os.Getpid())
	base := "/pipeline"
	if queue == ownQueue {
		base = ""
	}
	for ctx.Err() == nil {
		var got struct{ Items []taken }
		what := map[string]any{"worker": worker, "limit": 10, "lease_s": lease.Seconds()}
		err := in.ask(ctx, http.MethodPost, base+"/queues/"+queue+"/take", what, &got)
		if err != nil || len(got.Items) == 0 {
			sleep(ctx, 100*time.Millisecond)
			continue
		}
		for _, it := range got.Items {
			if err := it.work(ctx, in, queue, worker, n); err != nil {
				return errors.Join(err, ctx.Err())
			}
		}
	}
	return nil
}

// work works an item, and says so until it is answered: that it is recorded, or
// that another worker holds the item.
func (it taken) work(ctx context.Context, in *installation, queue, worker string, n *notes) error {
	p := piece{queue, it.Filename, it.Shard}
	what := map[string]any{"generation": it.Generation, "worker": worker}
	path := "/pipeline/stages/" + queue + "/"
	if it.Filename == "" {
		p = piece{stage: queue, filename: it.Key}
		path = fmt.Sprintf("/queues/%s/items/%d/", queue, it.ID)
	} else {
		what["filename"], what["shard"] = it.Filename, it.Shard
	}
	move := "done"
	if err := n.work(p, it.Attempt); err != nil {
		move, what["error"] = "fail", err.Error()
	}
	err := in.insist(context.WithoutCancel(ctx), http.MethodPost, path+move, what, nil)
	var no *refusal
	switch {
	case errors.As(err, &no) && no.status == http.StatusConflict:
		return nil
	case err == nil && move == "done":
		n.write('A', p, it.Generation)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
