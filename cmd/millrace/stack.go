package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// stack runs parts that need those started before them. They end in the
// opposite order: what lets things in first, engines last.
type stack struct {
	log   *slog.Logger
	parts []*part
	ended chan *part
}

type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func newStack(log *slog.Logger) *stack { return &stack{log: log, ended: make(chan *part, 32)} }

// launch runs a part.
func (s *stack) launch(name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	s.parts = append(s.parts, p)
	go func() {
		defer close(p.done)
		p.err = run(ctx)
		s.ended <- p
	}()
	return p
}

// await waits until the part is ready, has ended, or ctx ends.
func (p *part) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-p.done:
		return p.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *part) failure() error {
	if p.err != nil {
		return p.err
	}
	return fmt.Errorf("%s has ended by itself", p.name)
}

// wait returns nil when ctx ends, and an error when a part ends before.
func (s *stack) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case p := <-s.ended:
		return p.failure()
	}
}

// errHurried is the error of a stop that a second signal has cut short.
var errHurried = errors.New("stopped in a hurry, by a second signal; what was under way is done again at the " +
	"next start")

// stop ends all parts in the opposite order of their start, and returns their
// errors but for told, which the caller has. It gives up when hurry ends.
func (s *stack) stop(hurry context.Context, told error) error {
	var errs []error
	for i := len(s.parts) - 1; i >= 0; i-- {
		p, start := s.parts[i], time.Now()
		p.cancel()
		select {
		case <-p.done:
		case <-hurry.Done():
			return errHurried
		}
		if p.err != nil && !errors.Is(told, p.err) {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, p.err))
		}
		s.log.Debug("stopped", "part", p.name, "took", time.Since(start))
	}
	return errors.Join(errs...)
}
