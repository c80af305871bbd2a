package main

import (
	"context"
	"log/slog"
	"time"
)

// engine is one run of an embedded server.
type engine interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{} // closed when it serves
}

// kept is an embedded server in a process of its own, started again when it
// ends by itself: events are taken in without it, and what they are folded into
// waits, so the rest of the process tree goes on.
type kept struct {
	engine // the first
	name   string
	again  func() (engine, error)
	log    *slog.Logger
}

// keep makes the first run, and starts nothing.
func keep(name string, log *slog.Logger, begin func() (engine, error)) (*kept, error) {
	first, err := begin()
	if err != nil {
		return nil, err
	}
	return &kept{first, name, begin, log}, nil
}

// Run serves until ctx ends. A first server that does not come up is an error.
func (k *kept) Run(ctx context.Context) error {
	err := k.engine.Run(ctx)
	select {
	case <-k.Ready():
	default:
		return err
	}
	for wait := 250 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 30*time.Second) {
		k.log.Error("an embedded engine has ended, and is started again", "engine", k.name, "error", err, "in", wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		began := time.Now()
		var next engine
		if next, err = k.again(); err != nil {
			continue
		}
		if err = next.Run(ctx); time.Since(began) > time.Minute {
			wait = 125 * time.Millisecond // doubled in a moment
		}
	}
	return nil
}
