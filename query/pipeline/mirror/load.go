package mirror

import "context"

// load is something that one goroutine brings in and others wait for. done is
// closed at its end; err is set before.
type load struct {
	done chan struct{}
	err  error
}

func newLoad() load { return load{done: make(chan struct{})} }

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

// loaded tells whether the load has ended well.
func (l *load) loaded() bool {
	select {
	case <-l.done:
		return l.err == nil
	default:
		return false
	}
}
