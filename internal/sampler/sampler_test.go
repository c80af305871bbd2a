package sampler

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a source that a test has answer, fail or hang. A test changes it under its lock.
type server struct {
	mu    sync.Mutex
	value float64
	err   error
	hangs chan struct{} // nil: it does not
	deaf  bool          // it hangs beyond the end of its time, too
}

func (s *server) source(name string) Source {
	g := NewGauge("test_"+name, "A test.", "part")
	return Source{Name: name, Gauges: []*Gauge{g}, Read: func(ctx context.Context, set Set) error {
		s.mu.Lock()
		value, err, hangs, deaf := s.value, s.err, s.hangs, s.deaf
		s.mu.Unlock()
		if hangs != nil {
			select {
			case <-hangs:
			case <-ctx.Done():
				if deaf {
					<-hangs
				}
				return ctx.Err()
			}
		}
		set(g, value, "a")
		return err
	}}
}

// exported returns the text of all series whose names begin with a prefix.
func exported(t *testing.T, reg *prometheus.Registry, name string) string {
	t.Helper()
	text, err := testutil.CollectAndFormat(reg, expfmt.TypeTextPlain, name)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// TestOnlyCurrentValues: a value is exported until it is too old, whether its source
// fails, hangs or ignores the end of its time, and a scrape never waits for the source.
func TestOnlyCurrentValues(t *testing.T) {
	for name, outage := range map[string]func(*server){
		"fails": func(s *server) { s.err = errors.New("away") },
		"hangs": func(s *server) { s.hangs = make(chan struct{}) },
		"deaf":  func(s *server) { s.hangs, s.deaf = make(chan struct{}), true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := prometheus.NewRegistry()
				s, err := New(reg, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				srv, other := &server{value: 7}, &server{value: 1}
				if err := errors.Join(s.Add(srv.source("one")), s.Add(other.source("two"))); err != nil {
					t.Fatal(err)
				}
				if got := exported(t, reg, "millrace_sample_current"); !strings.Contains(got, `{source="one"} 0`) {
					t.Errorf("before the first read: %s", got)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); _ = s.Run(ctx) }()
				synctest.Wait()
				if got := exported(t, reg, "test_one"); got != `test_one{part="a"} 7` {
					t.Errorf("after a read: %q", got)
				}
				srv.mu.Lock()
				outage(srv)
				srv.mu.Unlock()
				time.Sleep(Limit - time.Second)
				if got := exported(t, reg, "test_one"); got != `test_one{part="a"} 7` {
					t.Errorf("before the limit: %q", got)
				}
				time.Sleep(2 * time.Second)
				if got := exported(t, reg, "test_one"); got != "" {
					t.Errorf("after the limit: %q", got)
				}
				if got := exported(t, reg, "millrace_sample_current"); !strings.Contains(got, `{source="one"} 0`) ||
					!strings.Contains(got, `{source="two"} 1`) {
					t.Errorf("after the limit: %s", got)
				}
				srv.mu.Lock()
				if srv.hangs != nil {
					close(srv.hangs)
				}
				srv.value, srv.err, srv.hangs, srv.deaf = 8, nil, nil, false
				srv.mu.Unlock()
				time.Sleep(every + timeout + time.Second)
				if got := exported(t, reg, "test_one"); got != `test_one{part="a"} 8` {
					t.Errorf("after the outage: %q", got)
				}
				cancel()
				<-ended
			})
		})
	}
}

// TestReadingIsBounded: a source that takes long is read less often.
func TestReadingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s, err := New(reg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		reads := 0
		g := NewGauge("test_slow", "A test.")
		if err := s.Add(Source{Name: "slow", Gauges: []*Gauge{g}, Read: func(_ context.Context, set Set) error {
			time.Sleep(2 * time.Second)
			reads++
			set(g, float64(reads))
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if reads > 15 {
			t.Errorf("%d reads of 2 s in 10 minutes", reads)
		}
	})
}

// TestOneOwnerOfAGauge: two sources cannot have the same gauge.
func TestOneOwnerOfAGauge(t *testing.T) {
	s, err := New(prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add((&server{}).source("same")); err != nil {
		t.Fatal(err)
	}
	if err := s.Add((&server{}).source("same")); err == nil {
		t.Error("no error")
	}
}
