package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// jobs are what the daemons have to do.
type jobs interface {
	queues() []string
	// pieces is how many pieces of work there are in all queues together.
	pieces() int
	// add has the pieces come into the queues, whatever is killed meanwhile.
	add(ctx context.Context) error
	// done is how many items have reached their end, of how many.
	done(ctx context.Context) (n, of int, err error)
	// check compares the record with what was added.
	check(ctx context.Context) error
}

// fill adds everything, and waits until it is done.
func fill(ctx context.Context, j jobs, out io.Writer) error {
	if err := j.add(ctx); err != nil {
		return err
	}
	told := time.Now()
	for {
		n, of, err := j.done(ctx)
		if err == nil && n == of {
			return nil
		}
		if err == nil && time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Fprintf(out, "%d of %d items are through\n", n, of)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d items are through: %v", context.Cause(ctx), n, of, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
