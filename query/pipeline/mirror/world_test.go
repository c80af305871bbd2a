package mirror

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/funnel"
)

var pipeline = []string{"crawled", "indexed", "classified"}

// world is a store whose rows come from batches, as a projector writes them.
type world struct {
	mu     sync.Mutex
	events []landed
	rows   map[rowKey]*row
	seq    uint64
	group  uint32
	// during is called in the middle of each load, where batches may land.
	during func()
	fail   error
}

// landed is an event in the events table.
type landed struct {
	Event
	seq uint64 // where its batch ends
}

type rowKey struct {
	funnel.Key
	group uint32
}

type row struct {
	events uint64
	set    funnel.Set
	seq    uint64
}

// commit makes a batch durable and returns what announces it.
func (w *world) commit(events []Event) *funnel.Delta {
	d, complete := w.begin(events)
	complete()
	return d
}

// begin writes some rows and some events of a batch, and complete the others.
func (w *world) begin(events []Event) (d *funnel.Delta, complete func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d = &funnel.Delta{Group: w.group, From: w.seq, To: w.seq + uint64(len(events)) + 1, Parts: 1}
	w.seq = d.To
	for _, e := range events {
		sec := e.At / 1e9
		d.Entries = append(d.Entries, funnel.Entry{
			Quarter: uint32(funnel.Quarter.Floor(sec)), Article: e.Article,
			Stage: uint16(place(&d.Stages, e.Stage)), Source: uint32(place(&d.Sources, e.Source)),
		})
	}
	write := func(part int) {
		for i, e := range events {
			if i%2 == part {
				w.events = append(w.events, landed{e, d.To})
			}
			if place(&d.Stages, e.Stage)%2 == part {
				w.countRows(e, d.To)
			}
		}
	}
	write(0)
	return d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		write(1)
	}
}

func (w *world) countRows(e Event, seq uint64) {
	for _, width := range funnel.Widths {
		for _, source := range []string{funnel.AllSources, e.Source} {
			w.count(
				funnel.Key{Width: width, Bucket: uint32(width.Floor(e.At / 1e9)), Source: source, Stage: e.Stage},
				e.Article, seq,
			)
		}
	}
}

func (w *world) count(key funnel.Key, article, seq uint64) {
	r := w.rows[rowKey{key, w.group}]
	if r == nil {
		r = &row{}
		w.rows[rowKey{key, w.group}] = r
	}
	r.events++
	r.set.Insert(article)
	r.seq = seq
}

func place(names *[]string, name string) int {
	for i, n := range *names {
		if n == name {
			return i
		}
	}
	*names = append(*names, name)
	return len(*names) - 1
}

// split cuts a delta into parts.
func splitDelta(d *funnel.Delta, parts int) []*funnel.Delta {
	var out []*funnel.Delta
	for i := range parts {
		p := *d
		p.Part, p.Parts = uint32(i), uint32(parts)
		p.Entries = d.Entries[i*len(d.Entries)/parts : (i+1)*len(d.Entries)/parts]
		out = append(out, &p)
	}
	return out
}

func (w *world) interrupt() error {
	if f := w.during; f != nil {
		f()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail
}

func (w *world) QuarterCounts(_ context.Context, source string, from time.Time, yield func(Count) error) error {
	if err := w.interrupt(); err != nil {
		return err
	}
	w.mu.Lock()
	var rows []Count
	for k, r := range w.rows {
		if k.Width == funnel.Quarter && k.Source == source && int64(k.Bucket) >= from.Unix() {
			rows = append(rows, Count{k.Stage, k.Bucket, k.group, r.events, r.seq})
		}
	}
	w.mu.Unlock()
	for _, r := range rows {
		if err := yield(r); err != nil {
			return err
		}
	}
	return w.interrupt()
}

func (w *world) LastSeen(
	_ context.Context, source string, from, to time.Time, cut []uint64, yield func(string, uint32, []uint64) error,
) error {
	type key struct {
		stage   string
		article uint64
	}
	if err := w.interrupt(); err != nil {
		return err
	}
	last := map[key]uint32{}
	w.mu.Lock()
	for _, e := range w.events {
		bucket := uint32(funnel.Quarter.Floor(e.At / 1e9))
		if e.seq <= slices.Min(cut) && int64(bucket) >= from.Unix() && int64(bucket) < to.Unix() &&
			(source == "" || source == e.Source) {
			last[key{e.Stage, e.Article}] = max(bucket, last[key{e.Stage, e.Article}])
		}
	}
	w.mu.Unlock()
	for k, bucket := range last {
		if err := yield(k.stage, bucket, []uint64{k.article}); err != nil {
			return err
		}
	}
	return w.interrupt()
}

func (w *world) Sets(
	_ context.Context, source string, spans []funnel.Span, yield func(string, uint64, *funnel.Set) error,
) error {
	if err := w.interrupt(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, span := range spans {
		for k, r := range w.rows {
			if k.Width == span.Width && k.Source == source && int64(k.Bucket) >= span.From &&
				int64(k.Bucket) < span.To {
				if err := yield(k.Stage, r.events, r.set.Clone()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *world) SingleEvents(
	_ context.Context, from, to time.Time, cut []uint64, limit int, yield func(Event) error,
) error {
	if err := w.interrupt(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.seq <= slices.Min(cut) && e.At >= from.UnixNano() && e.At < to.UnixNano() && limit > 0 {
			limit--
			if err := yield(e.Event); err != nil {
				return err
			}
		}
	}
	return nil
}

// recount is the definition that the mirror has to agree with.
func (w *world) recount(source string, from time.Time) []Stage {
	return w.recountUntil(source, from, time.Unix(0, math.MaxInt64), math.MaxUint64)
}

// recountUntil counts the events of [from, end) up to a sequence.
func (w *world) recountUntil(source string, from, end time.Time, upto uint64) []Stage {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Stage, len(pipeline))
	for i, name := range pipeline {
		seen := map[uint64]bool{}
		for _, e := range w.events {
			if e.Stage == name && e.At >= from.UnixNano() && e.At < end.UnixNano() && e.seq <= upto &&
				(source == "" || e.Source == source) {
				out[i].Events++
				seen[e.Article] = true
			}
		}
		out[i].Articles = uint64(len(seen))
	}
	return out
}

// draw makes events at random times of the last 33 days, most of them recent,
// some of them at the edges where windows begin.
func draw(rng *rand.Rand, now time.Time, n, articles int) []Event {
	out := make([]Event, n)
	for i := range out {
		age := time.Duration(rng.Int64N(int64(5 * time.Minute)))
		switch rng.IntN(6) {
		case 0:
			age = time.Duration(rng.Int64N(int64(33 * 24 * time.Hour)))
		case 1:
			age = time.Duration(rng.Int64N(int64(26 * time.Hour)))
		case 2:
			edges := []time.Duration{24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}
			age = edges[rng.IntN(3)] + time.Duration(rng.Int64N(int64(20*time.Minute))) - 10*time.Minute
		case 3:
			age = -time.Duration(rng.Int64N(int64(5 * time.Second)))
		}
		stages := append([]string{"retired"}, pipeline...)
		out[i] = Event{
			At: now.Add(-age).UnixNano(), Stage: stages[rng.IntN(len(stages))],
			Source: fmt.Sprintf("source-%d", rng.IntN(4)), Article: mix(uint64(rng.IntN(articles))),
		}
	}
	return out
}

// mix makes a uniform hash of a small number.
func mix(x uint64) uint64 {
	x = (x + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// of makes a period of a zone.
func of(period, zone string) At {
	return func(now time.Time) reads.Window { return windowOf(period, zone, now) }
}

func windowOf(period, zone string, now time.Time) reads.Window {
	s, err := reads.ParseWindow(reads.WindowRequest{Period: period, TZ: zone})
	if err != nil {
		panic(err)
	}
	return s.At(now)
}
