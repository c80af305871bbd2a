package batches

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func fill(l *lines, bucket string, from, n int) {
	for i := range n {
		l.add(entry{seq: uint64(from + i), bucket: bucket, message: &message{data: []byte("0123456789")}})
	}
}

// drain takes all that may be read now.
func drain(l *lines) (taken []string) {
	for {
		e, ok := l.next()
		if !ok {
			return taken
		}
		taken = append(taken, fmt.Sprint(e.bucket, e.seq))
	}
}

// TestTurns holds invariant 4: buckets take turns in the order of the stream, and none has
// more than its share.
func TestTurns(t *testing.T) {
	l := &lines{perBucket: 2, keep: 50}
	fill(l, "a", 1, 4)
	fill(l, "b", 5, 1)
	fill(l, "c", 6, 3)
	if got, want := drain(l), []string{"a1", "b5", "c6", "a2", "c7"}; !slices.Equal(got, want) {
		t.Errorf("%v are taken, want %v", got, want)
	}
	for range 2 {
		l.done("c")
	}
	l.done("a")
	l.done("b")
	if got, want := drain(l), []string{"c8", "a3"}; !slices.Equal(got, want) {
		t.Errorf("%v are taken, want %v", got, want)
	}
	for range 2 {
		l.done("a")
	}
	l.done("c")
	if got := drain(l); !slices.Equal(got, []string{"a4"}) {
		t.Errorf("%v is taken", got)
	}
	l.done("a")
	if l.waiting != 0 || l.kept != 0 || len(l.of) != 0 || len(l.turns) != 0 {
		t.Errorf("in the end there are %+v", l)
	}
}

// TestKept: as much of what waits is in memory as may be.
func TestKept(t *testing.T) {
	l := &lines{perBucket: 9, keep: 50}
	fill(l, "a", 1, 3)
	if l.kept != 40 {
		t.Errorf("%d bytes are kept", l.kept)
	}
	for i := range 3 {
		if e, ok := l.next(); !ok || (e.message == nil) != (i == 2) {
			t.Errorf("%d: %+v", i, e)
		}
	}
	if l.kept != 0 {
		t.Errorf("%d bytes are kept of nothing", l.kept)
	}
}

// TestLater: what is to be taken later is taken when its time has come.
func TestLater(t *testing.T) {
	l, now := &lines{perBucket: 9}, time.Unix(1000, 0)
	for i, after := range []int{3, 1, 2} {
		l.addLater(entry{seq: uint64(i), bucket: "a", message: &message{data: []byte("x")}}, now.Add(time.Duration(after)*time.Second))
	}
	if next := l.due(now); !next.Equal(now.Add(time.Second)) || len(drain(l)) != 0 || l.waiting != 3 {
		t.Errorf("the next is due at %v", next)
	}
	if next := l.due(now.Add(2 * time.Second)); !next.Equal(now.Add(3 * time.Second)) {
		t.Errorf("the next is due at %v", next)
	}
	if got := drain(l); !slices.Equal(got, []string{"a1", "a2"}) || l.waiting != 1 {
		t.Errorf("%v are taken", got)
	}
	if next := l.due(now.Add(time.Hour)); !next.IsZero() || len(drain(l)) != 1 || l.kept != 0 {
		t.Errorf("the next is due at %v", next)
	}
}
