package combine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/combine"
)

// work notes what is worked together, and takes a second.
type work struct {
	mu   sync.Mutex
	runs [][]int
	fail map[int]error // items that make a run fail
}

func (w *work) do(ctx context.Context, _ string, items []int) ([]int, error) {
	w.mu.Lock()
	w.runs = append(w.runs, slices.Clone(items))
	w.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(time.Second):
	}
	results := make([]int, len(items))
	for i, n := range items {
		if err := w.fail[n]; err != nil {
			return nil, err
		}
		results[i] = -n
	}
	return results, nil
}

func (w *work) lanes(atOnce int) *combine.Lanes[string, int, int] {
	return &combine.Lanes[string, int, int]{
		Work: w.do, Most: 10, AtOnce: atOnce,
	}
}

// calls makes calls one behind the other, without waiting for their results, and returns how to await these.
type calls struct {
	t     *testing.T
	lanes *combine.Lanes[string, int, int]
	wg    sync.WaitGroup
}

func (c *calls) call(ctx context.Context, lane string, want error, items ...int) {
	c.t.Helper()
	c.wg.Go(func() {
		results, err := c.lanes.Do(ctx, lane, items)
		if !errors.Is(err, want) {
			c.t.Errorf("%v: %v, want %v", items, err, want)
		}
		for i, n := range items {
			if want == nil && (len(results) != len(items) || results[i] != -n) {
				c.t.Errorf("the results of %v are %v", items, results)
				return
			}
		}
	})
	synctest.Wait()
}

func same(t *testing.T, got [][]int, want ...[]int) {
	t.Helper()
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("worked %v, want %v", got, want)
	}
}

func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &work{}
		c := &calls{t: t, lanes: w.lanes(1)}
		for i := range 13 {
			c.call(t.Context(), "a", nil, i)
		}
		c.call(t.Context(), "b", nil, 50)                                     // another lane waits for nobody
		c.call(t.Context(), "a", nil, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69) // too many to go with others
		c.call(t.Context(), "a", nil, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80)
		c.call(t.Context(), "a", nil, 90)
		c.wg.Wait()
		same(t, w.runs, []int{0}, []int{50}, []int{70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80},
			[]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, []int{11, 12}, []int{60, 61, 62, 63, 64, 65, 66, 67, 68, 69}, []int{90})
	})
}

func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &work{}
		c := &calls{t: t, lanes: w.lanes(2)}
		for i := range 5 {
			c.call(t.Context(), "", nil, i)
		}
		c.wg.Wait()
		same(t, w.runs, []int{0}, []int{1}, []int{2, 3, 4})
	})
}

// TestFailure: what makes a run fail is the failure of its own call alone.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := errors.New("wrong")
		w := &work{fail: map[int]error{2: wrong}}
		c := &calls{t: t, lanes: w.lanes(1)}
		c.call(t.Context(), "", nil, 0)
		c.call(t.Context(), "", nil, 1)
		c.call(t.Context(), "", wrong, 2)
		c.call(t.Context(), "", nil, 3)
		c.wg.Wait()
		slices.SortFunc(w.runs[2:], slices.Compare)
		same(t, w.runs, []int{0}, []int{1, 2, 3}, []int{1}, []int{2}, []int{3})
	})
}

// TestGone: a caller that goes away does not end the work of others, nor is its work begun. Work that nobody waits
// for ends.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &work{}
		c := &calls{t: t, lanes: w.lanes(1)}
		gone, leave := context.WithCancel(t.Context())
		begin := time.Now()
		c.call(gone, "", context.Canceled, 0)
		c.call(gone, "", context.Canceled, 1)
		leave()
		synctest.Wait()
		if time.Since(begin) != 0 {
			t.Error("the callers have not left")
		}
		c.call(t.Context(), "", nil, 2)

		gone, leave = context.WithCancel(t.Context())
		c.call(gone, "", context.Canceled, 3)
		c.call(t.Context(), "", nil, 4)
		time.Sleep(3 * time.Second / 2) // 3 and 4 are at work
		leave()
		c.wg.Wait()
		same(t, w.runs, []int{0}, []int{2}, []int{3, 4})
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
