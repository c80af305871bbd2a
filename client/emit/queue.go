package emit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-io/millrace/client/internal/spool"
)

// queue holds the texts of events in order until they are delivered. Any
// number of goroutines push, one reads and drops.
type queue interface {
	// push adds texts at the end and returns how many it has taken.
	push(ctx context.Context, texts [][]byte) (taken int, err error)
	// read returns texts from the front, at most so many and about so many
	// bytes.
	read(limit, bytes int) ([][]byte, error)
	// drop removes what read returned last.
	drop() error
	size() (events int, bytes int64)
	close() error
}

// openQueue returns the queue that the options ask for. Lost is told of events
// that a spool has lost to damage.
func openQueue(o Options, lost func(n int)) (queue, error) {
	if o.Spool == "" {
		return &memory{limit: o.Buffer, limitBytes: o.BufferBytes}, nil
	}
	s, err := spool.Open(spool.Config{
		Dir: o.Spool, MaxBytes: o.SpoolBytes, SyncEvery: max(0, o.SpoolSync),
		Lost: lost, Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	d := &disk{
		spool: s, timeout: o.Timeout, writes: make(chan *write, 256), quit: make(chan struct{}),
		done: make(chan struct{}),
	}
	go d.run()
	return d, nil
}

// memory is a queue without a disk.
type memory struct {
	limit, limitBytes int

	mu    sync.Mutex
	texts [][]byte
	bytes int
	given int // texts that read returned
}

func (m *memory) push(_ context.Context, texts [][]byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, t := range texts {
		if len(m.texts) >= m.limit || m.bytes+len(t) > m.limitBytes {
			return i, ErrDropped
		}
		m.texts, m.bytes = append(m.texts, t), m.bytes+len(t)
	}
	return len(texts), nil
}

func (m *memory) read(limit, bytes int) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for size := 0; n < min(limit, len(m.texts)) && size < bytes; n++ {
		size += len(m.texts[n])
	}
	m.given = n
	return m.texts[:n:n], nil
}

func (m *memory) drop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.texts[:m.given] {
		m.bytes -= len(t)
	}
	if m.texts = m.texts[m.given:]; len(m.texts) == 0 {
		m.texts = nil
	}
	m.given = 0
	return nil
}

func (m *memory) size() (int, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.texts), int64(m.bytes)
}

func (m *memory) close() error { return nil }

// disk is a queue in a spool. One goroutine writes, so that a disk that hangs
// keeps no caller beyond its time; what many callers push meanwhile is written
// together.
type disk struct {
	spool   *spool.Spool
	timeout time.Duration
	writes  chan *write
	quit    chan struct{}
	done    chan struct{}
}

type write struct {
	texts [][]byte
	err   chan error // buffered, so that a caller who left does not block
}

func (d *disk) push(ctx context.Context, texts [][]byte) (int, error) {
	w := &write{texts, make(chan error, 1)}
	timer := time.NewTimer(d.timeout)
	defer timer.Stop()
	select {
	case d.writes <- w:
	default:
		select {
		case d.writes <- w:
		case <-timer.C:
			return 0, fmt.Errorf("%w: %w", ErrDropped, ErrTimeout)
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", ErrDropped, ctx.Err())
		case <-d.done:
			return 0, ErrClosed
		}
	}
	select {
	case err := <-w.err:
		return w.outcome(err)
	case <-timer.C:
		return 0, ErrTimeout
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrTimeout, ctx.Err())
	case <-d.done:
		select {
		case err := <-w.err: // it was written at the last moment
			return w.outcome(err)
		default:
			return 0, ErrClosed
		}
	}
}

func (w *write) outcome(err error) (int, error) {
	switch {
	case errors.Is(err, spool.ErrFull):
		return 0, ErrDropped
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrDropped, err)
	}
	return len(w.texts), nil
}

// maxTogether bounds what is written at once, in calls.
const maxTogether = 256

func (d *disk) run() {
	defer close(d.done)
	for {
		select {
		case w := <-d.writes:
			d.write(w)
		case <-d.quit:
			for {
				select {
				case w := <-d.writes:
					d.write(w)
				default:
					return
				}
			}
		}
	}
}

// write writes a call's texts together with those of calls that wait. Where
// they do not fit together they may one by one.
func (d *disk) write(first *write) {
	together, texts := []*write{first}, first.texts
	for len(together) < maxTogether {
		select {
		case w := <-d.writes:
			together = append(together, w)
			texts = append(texts[:len(texts):len(texts)], w.texts...)
			continue
		default:
		}
		break
	}
	err := d.spool.Append(texts)
	for _, w := range together {
		if errors.Is(err, spool.ErrFull) && len(together) > 1 {
			w.err <- d.spool.Append(w.texts)
			continue
		}
		w.err <- err
	}
}

func (d *disk) read(limit, bytes int) ([][]byte, error) { return d.spool.Read(limit, bytes) }

func (d *disk) drop() error { return d.spool.Drop() }

func (d *disk) size() (int, int64) { return d.spool.Len() }

func (d *disk) close() error {
	close(d.quit)
	<-d.done
	return d.spool.Close()
}
