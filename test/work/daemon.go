package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
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

func (n *notes) write(what byte, stage, filename string, shard int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := fmt.Fprintf(n.file, "%d %c %s %s %d\n", time.Now().UnixNano(), what, stage, filename, shard); err != nil {
		panic(err)
	}
}

func (n *notes) work(stage, filename string, shard int) {
	n.write('B', stage, filename, shard)
	time.Sleep(labour) // the work
	n.write('E', stage, filename, shard)
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
	for _, stage := range queues {
		g.Go(func() error {
			if role == "go" {
				return workWithClient(ctx, stage, lease, n)
			}
			return workWithHTTP(ctx, stage, lease, n)
		})
	}
	return g.Wait()
}

func workWithClient(ctx context.Context, stage string, lease time.Duration, n *notes) error {
	nc, err := nats.Connect("nats://"+os.Getenv(envNATS), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	return client.Work(ctx, nc, stage, func(_ context.Context, item client.Item) error {
		n.work(item.Stage, item.Filename, item.Shard)
		return nil
	}, client.WorkConfig{Worker: os.Getenv(envName) + "-" + stage + "-" + strconv.Itoa(os.Getpid()), Concurrency: 10, Lease: lease})
}

// workWithHTTP polls: it takes some items, works them, and says so.
func workWithHTTP(ctx context.Context, stage string, lease time.Duration, n *notes) error {
	in := &installation{http: os.Getenv(envHTTP)}
	worker := os.Getenv(envName) + "-" + strconv.Itoa(os.Getpid())
	for ctx.Err() == nil {
		var taken struct {
			Items []struct {
				Filename   string `json:"filename"`
				Shard      int    `json:"shard"`
				Generation int    `json:"generation"`
			} `json:"items"`
		}
		err := in.post(ctx, "/queues/"+stage+"/take", map[string]any{"worker": worker, "limit": 10, "lease_s": lease.Seconds()}, &taken)
		if err != nil || len(taken.Items) == 0 {
			sleep(ctx, 100*time.Millisecond)
			continue
		}
		for _, it := range taken.Items {
			n.work(stage, it.Filename, it.Shard)
			err := in.post(context.WithoutCancel(ctx), "/stages/"+stage+"/done", map[string]any{
				"filename": it.Filename, "shard": it.Shard, "generation": it.Generation, "worker": worker,
			}, nil)
			if err != nil {
				return errors.Join(err, ctx.Err())
			}
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
