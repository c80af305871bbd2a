package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

func always(cachedAnswer[int]) bool { return true }
func never(cachedAnswer[int]) bool  { return false }

func TestFreshAnswersServe(t *testing.T) {
	c := newResultCache[int](10, time.Hour, time.Now)
	calls := 0
	ask := func(fresh func(cachedAnswer[int]) bool) int {
		v, err := c.Get(t.Context(), "q", fresh, func(context.Context) (int, error) { calls++; return calls, nil })
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if got := []int{ask(always), ask(always), ask(never), ask(always)}; fmt.Sprint(got) != "[1 1 2 2]" {
		t.Errorf("%v", got)
	}
}

// TestNothingOlder: who asks while a computation is under way does not get its
// answer unless it is fresh; all who came meanwhile share the next one.
func TestNothingOlder(t *testing.T) {
	c := newResultCache[int](10, time.Hour, time.Now)
	calls, begun, release := 0, make(chan struct{}, 10), make(chan struct{})
	compute := func(context.Context) (int, error) {
		calls++ // one flight at a time
		n := calls
		begun <- struct{}{}
		<-release
		return n, nil
	}
	first := make(chan int, 1)
	go func() { v, _ := c.Get(t.Context(), "q", never, compute); first <- v }()
	<-begun
	var late sync.WaitGroup
	answers := make(chan int, 5)
	for range cap(answers) {
		late.Go(func() {
			v, err := c.Get(t.Context(), "q", never, compute)
			if err != nil {
				t.Error(err)
			}
			answers <- v
		})
	}
	close(release)
	late.Wait()
	if v := <-first; v != 1 {
		t.Errorf("the first asker got %d", v)
	}
	for range cap(answers) {
		if v := <-answers; v < 1 || (v == 1 && calls == 1) {
			t.Errorf("an asker got %d of %d", v, calls)
		}
	}
	if calls > 1+cap(answers) {
		t.Errorf("%d computations", calls)
	}
}

func TestWhoLeaves(t *testing.T) {
	c := newResultCache[int](10, time.Hour, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	begun, release := make(chan struct{}), make(chan struct{})
	left := make(chan error, 1)
	go func() {
		_, err := c.Get(ctx, "q", never, func(ctx context.Context) (int, error) {
			close(begun)
			<-release
			return 7, ctx.Err()
		})
		left <- err
	}()
	<-begun
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	other := make(chan int, 1)
	go func() {
		v, err := c.Get(t.Context(), "q", always, func(context.Context) (int, error) { return 7, nil })
		if err != nil {
			t.Error(err)
		}
		other <- v
	}()
	close(release)
	if v := <-other; v != 7 {
		t.Errorf("who stayed got %d", v)
	}
}

func TestErrorsAreNotKept(t *testing.T) {
	c := newResultCache[int](10, time.Hour, time.Now)
	broken := errors.New("broken")
	if _, err := c.Get(t.Context(), "q", always, func(context.Context) (int, error) {
		return 1,
			broken
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if v, err := c.Get(t.Context(), "q", always, func(context.Context) (int, error) { return 2, nil }); v != 2 ||
		err != nil {
		t.Errorf("got %d, %v", v, err)
	}
}

func TestBound(t *testing.T) {
	c := newResultCache[int](3, time.Hour, time.Now)
	for i := range 10 {
		if _, err := c.Get(t.Context(), fmt.Sprint(i), always,
			func(context.Context) (int, error) { return i, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.answers) != 3 {
		t.Errorf("%d answers are held", len(c.answers))
	}
	for _, q := range []string{"7", "8", "9"} {
		if _, held := c.answers[q]; !held {
			t.Errorf("answer %s is gone", q)
		}
	}
}

// TestOldAnswersAreDropped: what nobody asks for any more does not stay for as
// long as there is room.
func TestOldAnswersAreDropped(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newResultCache[int](10, time.Minute, func() time.Time { return now })
	ask := func(question string) {
		if _, err := c.Get(t.Context(), question, never,
			func(context.Context) (int, error) { return 0, nil }); err != nil {
			t.Fatal(err)
		}
	}
	ask("a")
	now = now.Add(30 * time.Second)
	ask("b")
	now = now.Add(31 * time.Second)
	ask("c")
	if _, held := c.answers["a"]; held || len(c.answers) != 2 {
		t.Errorf("held are %v", c.answers)
	}
}
