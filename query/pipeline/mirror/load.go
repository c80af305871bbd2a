package mirror

import (
	"context"
	"errors"
	"time"
)

// load is something that one goroutine brings in and others wait for. done is
// closed at its end; err is set before.
type load struct {
	began time.Time
	done  chan struct{}
	err   error
}

func newLoad() load { return load{began: time.Now(), done: make(chan struct{})} }

func (l *load) finish(err error) {
	l.err = err
	close(l.done)
}

// wait returns the load's error, or that of ctx if it ends first.
func (l *load) wait(ctx context.Context) error {
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patience is for how long a load may be under way before readers who can do
// without it do so: far longer than it takes while the database answers. Once a load was
// late, it is brief, until another one ends well.
const (
	patience = 2 * time.Second
	brief    = 100 * time.Millisecond
)

// errLate is the error of a load that has been under way for longer than patience.
var errLate = errors.New("the database has not answered in time")

// waitPatiently is wait, for as long as there is patience with the load.
func (l *load) waitPatiently(ctx context.Context, patience time.Duration) error {
	limit := time.NewTimer(patience - time.Since(l.began))
	defer limit.Stop()
	select {
	case <-l.done:
		return l.err
	case <-limit.C:
		return errLate
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loaded tells whether the load has ended well.
func (l *load) loaded() bool {
	select {
	case <-l.done:
		return l.err == nil
	default:
		return false
	}
}
