package mirror

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// large is a store of many articles, one event each, spread over 30 days and
// three stages, newest first.
type large struct {
	now time.Time
	n   int
}

func (l large) at(i int) int64 {
	return l.now.Add(-time.Duration(i) * (30 * 24 * time.Hour / time.Duration(l.n))).Unix()
}

func (l large) QuarterCounts(_ context.Context, _ string, from time.Time, yield func(Count) error) error {
	counts := map[Count]uint64{}
	for i := 0; i < l.n && l.at(i) >= from.Unix(); i++ {
		counts[Count{Stage: pipeline[i%3], Bucket: uint32(funnel.Quarter.Floor(l.at(i)))}]++
	}
	for c, n := range counts {
		c.Events = n
		if err := yield(c); err != nil {
			return err
		}
	}
	return nil
}

func (l large) LastSeen(
	_ context.Context, _ string, from, _ time.Time, _ []uint64, yield func(string, uint32, []uint64) error,
) error {
	for i := 0; i < l.n && l.at(i) >= from.Unix(); i++ {
		if err := yield(pipeline[i%3], uint32(funnel.Quarter.Floor(l.at(i))), []uint64{mix(uint64(i))}); err != nil {
			return err
		}
	}
	return nil
}

func (l large) Sets(
	_ context.Context, _ string, _ []funnel.Span, yield func(string, uint64, *funnel.Set) error,
) error {
	var sets [3]funnel.Set
	for i := range l.n {
		sets[i%3].Insert(mix(uint64(i)))
	}
	for i := range sets {
		if err := yield(pipeline[i], 0, &sets[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l large) SingleEvents(_ context.Context, from, to time.Time, _ []uint64, _ int, yield func(Event) error) error {
	for i := range l.n {
		if at := l.at(i); at >= from.Unix() && at < to.Unix() {
			if err := yield(Event{at * 1e9, pipeline[i%3], "s", mix(uint64(i))}); err != nil {
				return err
			}
		}
	}
	return nil
}

func loaded(b *testing.B, n int) (*Mirror, large) {
	b.Helper()
	store := large{time.Date(2026, 10, 4, 11, 7, 13, 0, time.UTC), n}
	m, err := New(
		Config{Stages: pipeline, Now: func() time.Time { return store.now }}, store,
		slog.New(slog.NewTextHandler(io.Discard, nil)),
	)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.stop)
	if err := m.Reload(); err != nil {
		b.Fatal(err)
	}
	return m, store
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// BenchmarkLoad loads as many articles as the mirror holds, and says what they
// take.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		before := heap()
		m, _ := loaded(b, 2_000_000)
		b.ReportMetric(float64(heap()-before)/1e6, "MB")
		runtime.KeepAlive(m)
	}
}

// BenchmarkFunnel answers windows of two million events. The window moves, so
// that no estimate is answered from the cache where the quarter is split.
func BenchmarkFunnel(b *testing.B) {
	m, store := loaded(b, 2_000_000)
	for _, period := range []string{"today", "24h", "30d"} {
		for _, uniques := range []Uniques{Exact, Sketch} {
			b.Run(period+"/"+string(uniques), func(b *testing.B) {
				at := store.now
				for b.Loop() {
					at = at.Add(time.Millisecond)
					if _, err := m.Funnel(b.Context(), "", of(period, "UTC"), uniques); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkApply takes deltas of a thousand events.
func BenchmarkApply(b *testing.B) {
	m, store := loaded(b, 1_000_000)
	const size = 1000
	var seq uint64
	for b.Loop() {
		b.StopTimer()
		d := &funnel.Delta{From: seq, To: seq + size, Parts: 1, Stages: pipeline, Sources: []string{"s"}}
		for i := range uint64(size) {
			d.Entries = append(
				d.Entries,
				funnel.Entry{
					Quarter: uint32(funnel.Quarter.Floor(store.at(0))), Stage: uint16(i % 3), Article: mix(seq + i),
				},
			)
		}
		seq += size
		b.StartTimer()
		m.Apply(d)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(seq), "ns/event")
}
