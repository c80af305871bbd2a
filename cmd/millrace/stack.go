package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// stack runs layers that need those started before them. They end in the
// opposite order: what lets things in first, engines last.
type stack struct {
	log    *slog.Logger
	layers []*layer
	ended  chan *layer
}

type layer struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func newStack(log *slog.Logger) *stack { return &stack{log: log, ended: make(chan *layer, 32)} }

// launch runs a layer.
func (s *stack) launch(name string, run func(context.Context) error) *layer {
	ctx, cancel := context.WithCancel(context.Background())
	l := &layer{name: name, cancel: cancel, done: make(chan struct{})}
	s.layers = append(s.layers, l)
	go func() {
		defer close(l.done)
		l.err = run(ctx)
		s.ended <- l
	}()
	return l
}

// await waits until the layer is ready, has ended, or ctx ends.
func (l *layer) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-l.done:
		return l.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *layer) failure() error {
	if l.err != nil {
		return l.err
	}
	return fmt.Errorf("%s has ended by itself", l.name)
}

// wait returns nil when ctx ends, and an error when a layer ends before.
func (s *stack) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case l := <-s.ended:
		return l.failure()
	}
}

// errHurried is the error of a stop that a second signal has cut short.
var errHurried = errors.New("stopped in a hurry, by a second signal; what was under way is done again at the " +
	"next start")

// stop ends all layers in the opposite order of their start, and returns their
// errors but for told, which the caller has. It gives up when hurry ends.
func (s *stack) stop(hurry context.Context, told error) error {
	var errs []error
	for i := len(s.layers) - 1; i >= 0; i-- {
		l, start := s.layers[i], time.Now()
		l.cancel()
		select {
		case <-l.done:
		case <-hurry.Done():
			return errHurried
		}
		if l.err != nil && !errors.Is(told, l.err) {
			errs = append(errs, fmt.Errorf("%s: %w", l.name, l.err))
		}
		s.log.Debug("stopped", "layer", l.name, "took", time.Since(start))
	}
	return errors.Join(errs...)
}
