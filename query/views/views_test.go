package views

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/schemas/item"
)

// letters are dead letters of a test, which counts how often they are read.
type letters struct {
	count, last uint64
	read        int
	fail        error
}

func (l *letters) State(context.Context) (count, last uint64, err error) {
	return l.count, l.last, l.fail
}

func (l *letters) Newest(_ context.Context, most int) ([]LiveLetter, error) {
	l.read++
	var newest []LiveLetter
	for id := l.last; id > 0 && len(newest) < most; id-- {
		newest = append(newest, LiveLetter{ID: id, Code: "stage_unknown", Reason: "must be known"})
	}
	return newest, l.fail
}

// TestDeadLetters: the newest letters are read when there are others, and only
// then, and for those alone who may read them over HTTP.
func TestDeadLetters(t *testing.T) {
	l := &letters{}
	v := DeadLettersOf(l)
	if got, s := stateOf[LiveLetters](t, v); got.Count != 0 ||
		!strings.Contains(string(s.Body), `"newest":[]`) {
		t.Errorf("%s", s.Body)
	}
	if v.Scope != auth.Admin {
		t.Errorf("the scope is %q", v.Scope)
	}
	l.count, l.last = 25, 30
	for range 3 {
		if got, _ := stateOf[LiveLetters](t, v); got.Count != 25 || len(got.Newest) != newestLetters ||
			got.Newest[0].ID != 30 || got.Newest[0].Reason == "" {
			t.Errorf("%+v", got)
		}
	}
	l.count = 24 // one was replayed
	if got, _ := stateOf[LiveLetters](t, v); got.Count != 24 {
		t.Errorf("%+v", got)
	}
	if l.read != 2 {
		t.Errorf("the letters were read %d times", l.read)
	}
	l.fail = os.ErrDeadlineExceeded
	refused(t, v, l.fail)
}

// states are queues of a test.
type states struct {
	queues []queue.State
	fail   error
}

func (s *states) Summary(context.Context, func(kind, key int32, n int64)) ([]queue.State, error) {
	return s.queues, s.fail
}

// TestQueues: the view shows queues of shards and user-defined ones alike. A change of
// any figure is news, and time that passes is none.
func TestQueues(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &states{queues: []queue.State{
		{Settings: queue.Settings{ID: 2, Name: "shard-worker"}, Depth: 3, Oldest: since},
		{
			Settings: queue.Settings{ID: queue.FirstOwn, Name: "mail", Paused: true}, Delayed: 4,
			Dead: 3, Cancelled: 2,
			Counts: queue.Counts{item.New: 4, item.Started: 5, item.Done: 6, item.Failed: 7},
		},
	}}
	v := QueuesOf(s)
	got, first := stateOf[LiveQueues](t, v)
	want := []LiveQueue{
		{Name: "shard-worker", Ready: 3, OldestSince: &since},
		{Name: "mail", Delayed: 4, Running: 5, Done: 6, Failed: 7, Dead: 1, Cancelled: 2, Paused: true},
	}
	if !reflect.DeepEqual(got.Queues, want) {
		t.Errorf("%s", first.Body)
	}
	if _, again := stateOf[LiveQueues](t, v); again.Numbers != first.Numbers {
		t.Error("the same queues are news")
	}
	s.queues[1].Counts[item.Started]++
	if _, other := stateOf[LiveQueues](t, v); other.Numbers == first.Numbers {
		t.Error("a change is no news")
	}
	s.fail = errors.New("no database")
	refused(t, v, s.fail)
}

// stateOf computes a view, whose state has the type T.
func stateOf[T any](t *testing.T, v live.View) (state T, s live.Snapshot) {
	t.Helper()
	_, source, _ := v.Open(auth.Caller{}, nil)
	s, err := source.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(s.Body, &state); err != nil {
		t.Fatal(err)
	}
	return state, s
}

// refused checks that readers are told something else than the cause, and the
// log the cause.
func refused(t *testing.T, v live.View, cause error) {
	t.Helper()
	_, source, _ := v.Open(auth.Caller{}, nil)
	_, err := source.Snapshot(t.Context())
	var p *httpapi.Problem
	if !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable || strings.Contains(p.Detail, cause.Error()) ||
		!errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}
