package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/client"
)

// workers is how many handlers, and how many workers of River, run at once.
const workers = 1000

// queueStages have work queues, in their order. An item that leaves the last
// one goes nowhere, as a job of River does; one that leaves another becomes
// ready for the next, and its message is published.
var queueStages = []string{"shard-splitter", "shard-worker", "mysql-sender"}

// work measures how many items that do nothing a Go client works, each with a
// start and an end that are durable in Postgres, beside River and a plain
// polling loop on the same Postgres.
func (b *bench) work(ctx context.Context) (err error) {
	m, err := b.empty(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close(), os.RemoveAll(m.data)) }()
	pool, err := m.postgresPool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	n := max(1000, b.cfg.events/20) / 100 * 100
	b.say("working %d items at each of %d stages", n, len(queueStages))
	if err := m.register(ctx, n); err != nil {
		return err
	}
	speeds := map[string]speed{}
	for _, stage := range queueStages {
		if speeds[stage], err = m.workThrough(ctx, stage, n); err != nil {
			return fmt.Errorf("%s: %w", stage, err)
		}
	}
	b.say("working %d jobs with River", n)
	jobs, err := riverSpeed(ctx, pool, n)
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	b.say("polling Postgres")
	polled, err := pollSpeed(ctx, pool, max(1000, n/10))
	if err != nil {
		return fmt.Errorf("polling: %w", err)
	}
	const s, peer = "work", "River, 1,000 workers, 2 ms cooldown"
	last, middle := speeds[queueStages[2]], speeds[queueStages[1]]
	b.add(
		line{s, "no-op items at the last stage", "items/s", more, last.rate, peer, jobs.rate},
		line{s, "", "items/s", more, last.rate, "FOR UPDATE SKIP LOCKED, 10 at a time", polled.rate},
		line{s, "no-op items at a stage before another", "items/s", more, middle.rate, peer, jobs.rate},
		line{s, "processor time, last stage", "µs/item", less, last.cpu, peer, jobs.cpu},
		line{s, "processor time, before another", "µs/item", less, middle.cpu, peer, jobs.cpu},
	)
	return nil
}

// speed is what was worked in a time: items a second, and microseconds of all
// processes' processor time for each.
type speed struct{ rate, cpu float64 }

// stopwatch measures a speed.
type stopwatch struct {
	begin time.Time
	cpu   time.Duration
}

// newStopwatch begins to measure what this process and all that it has started do.
func newStopwatch() stopwatch { return stopwatch{time.Now(), spentByFamily(os.Getpid())} }

func (w stopwatch) stop(n int) speed {
	took, cpu := time.Since(w.begin), spentByFamily(os.Getpid())-w.cpu
	return speed{float64(n) / took.Seconds(), float64(cpu.Microseconds()) / float64(n)}
}

// empty starts the program on an empty folder, alone on the machine. Its environment has env on top.
func (b *bench) empty(ctx context.Context, env ...string) (*millrace, error) {
	if b.running != nil {
		err := b.running.close()
		if b.running = nil; err != nil {
			return nil, err
		}
	}
	data, err := os.MkdirTemp(b.dir, "work-*")
	if err == nil {
		err = os.Chmod(data, 0o711) // Postgres may run as another user
	}
	if err != nil {
		return nil, err
	}
	m, err := b.up(ctx, data, env...)
	if err != nil {
		return nil, err
	}
	if _, err := m.await(ctx, "millrace is up"); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// postgresPool connects to the program's Postgres.
func (m *millrace) postgresPool(ctx context.Context) (*pgxpool.Pool, error) {
	u, err := m.postgresURL()
	if err != nil {
		return nil, err
	}
	u.RawQuery = "pool_max_conns=16"
	pool, err := pgxpool.New(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	return pool, pool.Ping(ctx)
}

func (m *millrace) postgresURL() (*url.URL, error) {
	password, err := os.ReadFile(filepath.Join(m.data, "postgres", "password"))
	if err != nil {
		return nil, fmt.Errorf("find the password of Postgres: %w", err)
	}
	return &url.URL{
		Scheme: "postgres", User: url.UserPassword("millrace", string(bytes.TrimSpace(password))),
		Host: m.postgres, Path: "/millrace",
	}, nil
}

// register makes n items that are ready for the first stage.
func (m *millrace) register(ctx context.Context, n int) error {
	shards := make([]int, 100)
	for i := range shards {
		shards[i] = i
	}
	for i := range n / len(shards) {
		name := fmt.Sprintf("2025%010d", i)
		if err := m.pipeline(ctx, "/files/register", map[string]any{"filename": name, "shards": shards}); err != nil {
			return err
		}
		if err := m.pipeline(ctx, "/stages/event-ingest/done", map[string]any{"filename": name}); err != nil {
			return err
		}
	}
	return nil
}

func (m *millrace) pipeline(ctx context.Context, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.http+"/api/v1/pipeline"+path,
		bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("POST %s: %s: %s", path, answer.Status, text)
	}
	return nil
}

// workThrough works n items of a stage, all of which are on its queue, and
// returns the speed from the start of the client until it has been told that
// the end of the last one is durable.
func (m *millrace) workThrough(ctx context.Context, stage string, n int) (speed, error) {
	if err := m.queued(ctx, stage, n); err != nil {
		return speed{}, err
	}
	v, err := m.workOff(ctx, stage, n)
	if err != nil {
		return speed{}, err
	}
	return v, m.allDone(ctx, stage, n)
}

// workOff works n items of a queue with handlers that do nothing, and returns the speed until their ends are durable.
func (m *millrace) workOff(ctx context.Context, queue string, n int) (speed, error) {
	var seen atomic.Int64
	all := make(chan struct{})
	watch := newStopwatch()
	stop := m.startWork(ctx, queue, workers, func() {
		if seen.Add(1) == int64(n) {
			close(all)
		}
	})
	select {
	case <-all:
	case <-ctx.Done():
		return speed{}, errors.Join(ctx.Err(), stop())
	}
	if err := stop(); err != nil {
		return speed{}, err
	}
	return watch.stop(n), nil
}

// startWork works the items of a queue. stop returns when every end is durable.
func (m *millrace) startWork(ctx context.Context, queue string, concurrency int, each func()) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- client.Work(ctx, m.nc, queue, func(context.Context, client.Item) error {
			each()
			return nil
		}, client.WorkConfig{Concurrency: concurrency})
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// onStream is how many items' messages wait on the stream at least, where there are
// as many; those of the others follow as these are taken.
const onStream = 500

// queued waits until the n items of a stage, all of which are ready, are handed out.
func (m *millrace) queued(ctx context.Context, stage string, n int) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c, err := m.js.Consumer(ctx, "WORK", stage)
		if err == nil && int(c.CachedInfo().NumPending) >= min(n, onStream) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("of %d items fewer than %d are on the stream", n, min(n, onStream)), err)
		}
	}
}

// allDone makes sure that Postgres says so.
func (m *millrace) allDone(ctx context.Context, stage string, n int) error {
	pool, err := m.postgresPool(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer pool.Close()
	column := map[string]string{
		"shard-splitter": "shard_splitter", "shard-worker": "shard_worker",
		"mysql-sender": "mysql_sender",
	}[stage]
	var done, moves int
	err = pool.QueryRow(context.WithoutCancel(ctx),
		"SELECT count(*) FROM millrace.pipeline_tracking WHERE "+column+"_status = 'done'").Scan(&done)
	if err == nil {
		err = pool.QueryRow(context.WithoutCancel(ctx), `SELECT count(*) FROM millrace.history
			WHERE move IN ('start', 'done')
			AND stage = (SELECT stage FROM millrace.stage WHERE name = $1)`, stage).Scan(&moves)
	}
	if err != nil {
		return err
	}
	if done != n || moves < 2*n {
		return fmt.Errorf("%d of %d items are done, by %d moves", done, n, moves)
	}
	return nil
}
