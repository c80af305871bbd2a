package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/embedded/child"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// Times of watches. /ready says that an engine does not answer after one probe, the log and /health after hangsAfter.
const (
	watchEvery   = 5 * time.Second
	watchTimeout = 5 * time.Second
	hangsAfter   = 30 * time.Second
)

// watch asks an embedded engine for a new connection again and again: who has one may be answered for long by a server
// that takes no others.
//
// An engine that hangs is told of, and not restarted. From outside it looks like one whose disk stalls or that recovers,
// which a restart would set back, and one that somebody has stopped to look at it. Engines that end are started again,
// so it is enough to end it.
type watch struct {
	name  string
	probe func(context.Context) error
	pid   func() int
	log   *slog.Logger

	mu     sync.Mutex
	failed error         // of the last probe
	silent time.Duration // how long no probe has succeeded, while this process ran
}

// Run asks until ctx ends.
func (w *watch) Run(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := w.ask(ctx)
		now := time.Now()
		if ctx.Err() == nil {
			w.note(err, now.Sub(last))
		}
		last = now
	}
}

func (w *watch) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	answered := make(chan error, 1) // the driver of ClickHouse may wait longer than ctx
	go func() { answered <- w.probe(ctx) }()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no new connection within %s", watchTimeout)
	}
}

// note notes what became of a probe, which came so long after the one before. A machine that has slept meanwhile says
// nothing about its engine.
func (w *watch) note(err error, since time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hung := w.silent >= hangsAfter
	w.failed, w.silent = err, w.silent+min(since, watchEvery+watchTimeout)
	if err == nil {
		w.silent = 0
	}
	switch now := w.silent >= hangsAfter; {
	case now && !hung:
		w.log.Error("an embedded engine does not answer", "engine", w.name, "for", w.silent, "error", err, "process", w.process())
	case hung && !now:
		w.log.Info("an embedded engine answers again", "engine", w.name)
	}
}

// process says which process it is, and in what state.
func (w *watch) process() string {
	pid := w.pid()
	if pid == 0 {
		return "none: it is being started"
	}
	text := fmt.Sprint("process ", pid)
	if child.Stopped(pid) {
		text += ", which a signal has stopped (kill -CONT continues it)"
	}
	return text
}

// check is what /ready says.
func (w *watch) check() httpapi.Check {
	return httpapi.Check{Name: w.name + " engine", Need: httpapi.Never, Probe: func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.failed != nil {
			return fmt.Errorf("%w; %s", w.failed, w.process())
		}
		return nil
	}}
}

// warnings is what /health says.
func (w *watch) warnings() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent < hangsAfter {
		return nil
	}
	return []string{fmt.Sprintf("the embedded engine %s does not answer for %s: %v; %s; see "+
		"docs/runbooks/MillraceDependencyDown.md", w.name, w.silent.Round(time.Second), w.failed, w.process())}
}

// newConnection asks Postgres for one.
func newConnection(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}
