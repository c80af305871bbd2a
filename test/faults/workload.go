package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// workload is what is done in a trial beside events.
type workload interface {
	// run has work come until coming ends, and has it done until working ends.
	run(coming, working context.Context) error
	// finish returns when nothing is left to do, or says what is.
	finish(ctx context.Context) error
	// check compares what has become of the work with what was acknowledged.
	check(ctx context.Context) (finding, error)
}

// finding is what a comparison found.
type finding struct {
	fmt.Stringer
	title      string // of the mismatches
	mismatches []string
}

// differences are collected by a comparison.
type differences struct{ mismatches []string }

func (d *differences) wrong(format string, args ...any) {
	d.mismatches = append(d.mismatches, fmt.Sprintf(format, args...))
}

// shift is the time in which a workload is under way.
type shift struct {
	workload
	close, abandon context.CancelFunc // no more work comes; none is done
	over           chan error
}

type shifts []*shift

// begin begins workloads.
func begin(ctx context.Context, loads []workload) (all shifts) {
	for _, w := range loads {
		coming, close := context.WithCancel(ctx)
		working, abandon := context.WithCancel(ctx)
		s := &shift{w, close, abandon, make(chan error, 1)}
		go func() { s.over <- w.run(coming, working) }()
		all = append(all, s)
	}
	return all
}

func (all shifts) abandon() {
	for _, s := range all {
		s.close()
		s.abandon()
	}
}

// end has everything finished, one workload after the other, and compares.
func (all shifts) end(ctx context.Context, r *report, large int) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.end(ctx, r, large))
	}
	return errors.Join(errs...)
}

func (s *shift) end(ctx context.Context, r *report, large int) error {
	s.close()
	// A large upload takes its time.
	finishing, cancel := context.WithTimeout(ctx, drainLimit+time.Duration(large)*10*time.Millisecond)
	defer cancel()
	if err := s.finish(finishing); err != nil {
		r.failures = append(r.failures, err.Error())
	}
	s.abandon()
	if err := <-s.over; err != nil {
		return err
	}
	checking, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	f, err := s.check(checking)
	r.findings = append(r.findings, f)
	return err
}
