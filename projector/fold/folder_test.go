package fold

import (
	"context"
	"slices"
	"testing"
	"time"
)

// counter is a view whose batches are the numbers of their messages.
type counter struct{ n int }

func (c *counter) Take(Message) bool { c.n++; return false }

func (c *counter) Seal(context.Context, Cut) (int, string, error) {
	n := c.n
	c.n = 0
	return n, "", nil
}

func (c *counter) Write(context.Context, int) error             { return nil }
func (c *counter) Announce(context.Context, int, time.Duration) {}
func (c *counter) Failing() bool                                { return false }

// TestBacklogFillsBatches: while the stream holds enough messages to fill a
// batch, the batch waits for them however idle the sink is. The first batch
// after a pause does not wait, nor do the messages at the end of the backlog.
func TestBacklogFillsBatches(t *testing.T) {
	const batch, chunk, last = 100, 10, 350
	f := &Fold[int]{
		cfg:    Config{BatchMessages: batch, MinInterval: 1},
		folder: folder[int]{view: &counter{}},
		sealed: make(chan sealed[int]), idle: make(chan struct{}),
	}
	chunks := make(chan []Message)
	go func() {
		defer close(f.sealed)
		if err := f.fold(t.Context(), chunks); err != nil {
			t.Error(err)
		}
	}()
	var sizes []int
	take := func(s sealed[int]) { sizes = append(sizes, s.batch) }
	for seq := uint64(0); seq < last; {
		var ms []Message
		for range chunk {
			seq++
			ms = append(ms, Message{Seq: seq, Pending: last - seq})
		}
		for sent := false; !sent; {
			select {
			case chunks <- ms:
				sent = true
			case f.idle <- struct{}{}:
			case s := <-f.sealed:
				take(s)
			}
		}
	}
	for sum := 0; sum < last; {
		select {
		case f.idle <- struct{}{}:
		case s := <-f.sealed:
			take(s)
		}
		sum = 0
		for _, n := range sizes {
			sum += n
		}
	}
	close(chunks)
	if len(sizes) < 4 || !slices.Equal(sizes[1:3], []int{batch, batch}) {
		t.Errorf("a backlog of %d messages was cut into batches of %v, want the second and third of %d each",
			last, sizes, batch)
	}
}
