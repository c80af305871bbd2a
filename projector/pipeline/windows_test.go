package pipeline

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// zones have days of 23 and 25 hours and of 23.5 and 24.5, offsets of half an
// hour, three quarters, and of seconds, and a day that never was.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Havana", "America/St_Johns", "Australia/Lord_Howe",
	"Asia/Kolkata", "Asia/Kathmandu", "Pacific/Chatham", "Pacific/Apia", "Africa/Monrovia", "Asia/Tehran",
	"Africa/Cairo",
}

// TestFoldedWindows holds that a day of any zone, and any stretch of time, has
// the events and the articles in folded buckets and its edges that a plain
// recount has of the messages.
func TestFoldedWindows(t *testing.T) {
	lengths := map[time.Duration]int{}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 2))
		sent := aged(t, rng, messages(t, rng, 400))
		got := newEffects()
		layout, err := slots.New(1 + rng.Uint32N(3))
		if err != nil {
			t.Fatal(err)
		}
		foldEpoch(t, rng, layout, sent, true, got)
		events := acceptedOf(t, sent)
		for range 400 {
			from, to := stretch(t, rng, events[rng.IntN(len(events))])
			lengths[to.Sub(from)]++
			compareWindow(t, got.funnel, events, from, to)
		}
	}
	for _, hours := range []float64{23, 23.5, 24, 24.5, 25} {
		if d := time.Duration(hours * float64(time.Hour)); lengths[d] == 0 {
			t.Errorf("no day had %s", d)
		}
	}
}

// aged moves some messages to where clocks were set, or had odd offsets.
func aged(t *testing.T, rng *rand.Rand, sent []fold.Message) []fold.Message {
	t.Helper()
	days := []time.Time{
		// before Apia leapt a day
		time.Date(1971, 12, 31, 0, 40, 0, 0, time.UTC), time.Date(2011, 12, 30, 9, 50, 0, 0, time.UTC),
		time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), time.Date(2025, 10, 26, 0, 0, 0, 0, time.UTC),
		time.Date(2006, 10, 29, 2, 0, 0, 0, time.UTC),
		time.Date(2025, 10, 4, 14, 0, 0, 0, time.UTC), time.Date(2025, 4, 5, 14, 0, 0, 0, time.UTC),
		time.Date(2025, 11, 2, 4, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 8, 6, 0, 0, 0, time.UTC),
	}
	stages := stagesOf(t)
	for i := range sent {
		if rng.IntN(2) == 0 {
			continue
		}
		at := days[rng.IntN(len(days))].Add(time.Duration(rng.Int64N(int64(30 * time.Hour)))).Truncate(time.Second)
		sent[i].Subject, sent[i].Data = backfilledAt(t, rng, stages, at)
	}
	return sent
}

// accepted is what a recount knows of an event.
type accepted struct {
	at      time.Time
	stage   string
	article uint64
}

func acceptedOf(t *testing.T, sent []fold.Message) (all []accepted) {
	rows := recountOf(t, sent).rows
	for _, m := range sent {
		if _, counts := rows[m.Seq]; !counts {
			continue
		}
		var r event.Record
		if err := event.Decode(m.Data, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, accepted{time.Unix(0, r.OccurredAt).UTC(), string(r.Stage), r.ArticleID()})
	}
	return all
}

// stretch is the day that an event lies in, in some zone, or any time around
// it.
func stretch(t *testing.T, rng *rand.Rand, e accepted) (from, to time.Time) {
	t.Helper()
	if rng.IntN(4) == 0 {
		return e.at.Add(-time.Duration(rng.Int64N(int64(90 * time.Minute)))),
			e.at.Add(time.Duration(rng.Int64N(int64(40 * 24 * time.Hour))))
	}
	loc, err := time.LoadLocation(zones[rng.IntN(len(zones))])
	if err != nil {
		t.Fatal(err)
	}
	y, m, d := e.at.In(loc).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, loc), time.Date(y, m, d+1, 0, 0, 0, 0, loc)
}

// compareWindow adds up buckets as they cover [from, to), and what is left on
// either side.
func compareWindow(t *testing.T, folded map[contract.Key]*counted, events []accepted, from, to time.Time) {
	t.Helper()
	for _, stage := range stagesOf(t).Names() {
		var n, want uint64
		var articles contract.Set
		distinct := map[uint64]bool{}
		start, end := contract.Align(from, to)
		for _, span := range contract.Cover(start, end) {
			for bucket := span.From; bucket < span.To; bucket += int64(span.Width) {
				if c := folded[contract.Key{Width: span.Width, Bucket: uint32(bucket), Stage: stage}]; c != nil {
					n += c.events
					if err := articles.Merge(&c.articles); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for _, e := range events {
			if e.stage != stage || e.at.Before(from) || !e.at.Before(to) {
				continue
			}
			want++
			distinct[e.article] = true
			if e.at.Before(start) || !e.at.Before(end) { // an edge
				n++
				articles.Insert(e.article)
			}
		}
		if n != want || articles.Estimate() != uint64(len(distinct)) {
			t.Errorf("%s from %s to %s: %d events of %d articles, want %d of %d", stage, from, to, n,
				articles.Estimate(), want, len(distinct))
		}
	}
}
