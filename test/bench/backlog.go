package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// backlog measures how fast the projector folds a stream that was filled while
// it was away.
func (b *bench) backlog(ctx context.Context) (err error) {
	data, err := b.filled(ctx)
	if err != nil {
		return err
	}
	b.say("folding the backlog")
	m, err := b.up(ctx, data)
	if err != nil {
		return err
	}
	r, err := b.measureFold(ctx, m)
	if err := errors.Join(err, m.close()); err != nil {
		return err
	}
	b.data = data // for the sections that follow
	return b.floors(ctx, r)
}

func (b *bench) measureFold(ctx context.Context, m *millrace) (r run, err error) {
	memory := watch(m.pid())
	ch := clickhouseIn(m.pid())
	root := spentBy(m.pid())
	child := spentBy(ch)
	profiled := b.profile(ctx, m, max(1, b.cfg.events/150_000))
	end, err := m.folded(ctx, uint64(b.cfg.events))
	rootEnd := spentBy(m.pid())
	childEnd := spentBy(ch)
	peak := memory.end()
	if err := errors.Join(err, <-profiled); err != nil {
		return r, err
	}
	r = run{
		seconds: end.Sub(m.folding).Seconds(), events: b.cfg.events,
		consumer: rootEnd - root, clickhouse: childEnd - child, peak: peak,
	}
	b.say("folded %.0f events/s", r.rate())
	return r, m.check(ctx, uint64(b.cfg.events), b.history.truth())
}

// floors measures consumers that promise nothing, and reports the backlog.
func (b *bench) floors(ctx context.Context, f run) error {
	floor := map[string]run{}
	for _, name := range []string{"plain", "lean"} {
		b.say("reading the backlog: the %s floor", name)
		r, err := b.floor(ctx, name)
		if err != nil {
			return fmt.Errorf("%s floor: %w", name, err)
		}
		floor[name] = r
	}
	plain, lean := floor["plain"], floor["lean"]
	const s = "backlog"
	b.add(
		line{
			s, "folded into table, keys, rollups", "events/s", more, f.rate(),
			"plain loop into a table", plain.rate(),
		},
		line{s, "", "events/s", more, f.rate(), "lean reader, no promises", lean.rate()},
		line{
			s, "processor, millrace (NATS inside)", "µs/event", less, f.cost(f.consumer), "plain: consumer + NATS",
			plain.cost(plain.consumer + plain.nats),
		},
		line{
			s, "", "µs/event", less, f.cost(f.consumer), "lean: consumer + NATS",
			lean.cost(lean.consumer + lean.nats),
		},
		line{
			s, "processor, ClickHouse", "µs/event", less, f.cost(f.clickhouse), "plain: ClickHouse",
			plain.cost(plain.clickhouse),
		},
		line{s, "", "µs/event", less, f.cost(f.clickhouse), "lean: ClickHouse", lean.cost(lean.clickhouse)},
		line{s, "peak memory, whole tree (RSS)", "MB", less, megabytes(f.peak.RSS), "limit", 1500},
		line{s, "peak memory, shared pages once (PSS)", "MB", less, megabytes(f.peak.PSS), "", 0},
		line{
			s, "peak memory, millrace", "MB", less, megabytes(f.peak.Root), "plain: consumer + NATS",
			megabytes(plain.peak.Root),
		},
		line{
			s, "peak memory, ClickHouse", "MB", less, megabytes(f.peak.ClickHouse), "plain: ClickHouse",
			megabytes(plain.peak.ClickHouse),
		},
	)
	return nil
}

// run is one drain of the backlog.
type run struct {
	seconds                    float64
	events                     int
	consumer, nats, clickhouse time.Duration // of processor
	peak                       peaks
}

func (r run) rate() float64                { return float64(r.events) / r.seconds }
func (r run) cost(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(r.events) }
func megabytes(bytes int64) float64        { return float64(bytes) / 1e6 }

// profile takes a processor profile of the next seconds, when one is asked for.
// The channel gives its error.
func (b *bench) profile(ctx context.Context, m *millrace, seconds int) <-chan error {
	done := make(chan error, 1)
	if b.cfg.profile == "" {
		close(done)
		return done
	}
	go func() { done <- m.saveProfile(ctx, fmt.Sprintf("profile?seconds=%d", seconds), b.cfg.profile) }()
	return done
}

// heapProfile takes a profile of what the program holds in memory, when one is
// asked for, into a file beside that of its processor time.
func (b *bench) heapProfile(ctx context.Context, m *millrace) error {
	if b.cfg.profile == "" {
		return nil
	}
	return m.saveProfile(ctx, "heap", b.cfg.profile+".heap")
}

func (m *millrace) saveProfile(ctx context.Context, name, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.profile+"/debug/pprof/"+name, nil)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer resp.Body.Close()
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
