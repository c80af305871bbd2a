package viewtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

// Noon is the time that it is in tests.
var Noon = time.Date(2026, 3, 17, 12, 7, 13, 250_000_000, time.UTC)

// Draw makes events of the last 31 days, most of them recent, with many of
// them at one time.
func Draw(rng *rand.Rand, now time.Time, n int) []event.Event {
	out := make([]event.Event, n)
	for i := range out {
		age := time.Duration(rng.Int64N(int64(31 * 24 * time.Hour)))
		switch rng.IntN(4) {
		case 0:
			age = time.Duration(rng.Int64N(int64(26 * time.Hour)))
		case 1:
			age = time.Duration(rng.IntN(3)) * time.Hour
		case 2:
			period := []time.Duration{24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}[rng.IntN(3)]
			age = period + time.Duration(rng.IntN(20)-10)*time.Minute
		}
		stages := []string{"crawled", "indexed", "classified", "routed", "published"}
		out[i] = event.Event{
			ArticleURL: fmt.Sprintf("https://example.com/%d", rng.IntN(n/3+1)),
			SourceName: fmt.Sprintf("source-%d", rng.IntN(3)),
			Stage:      stages[rng.IntN(rng.IntN(5)+1)], OccurredAt: now.Add(-age), ServiceName: "test",
		}
	}
	return out
}

// Courses makes the events of n articles that go through the pipeline within
// hours of now, in random order: with repeats, reclassifications, stages that
// are skipped, and clocks that disagree.
func Courses(rng *rand.Rand, now time.Time, n int) []event.Event {
	var out []event.Event
	topics := []string{"crime", "news", "mining", "it's \"odd\""}
	for i := range n {
		at := now.Add(-time.Duration(rng.Int64N(int64(50 * time.Hour))))
		source := fmt.Sprintf("source-%d", rng.IntN(3))
		add := func(stage string, metadata map[string]any) {
			out = append(out, event.Event{
				ArticleURL: fmt.Sprintf("https://example.com/course-%d", i), SourceName: source, Stage: stage,
				OccurredAt: at, ServiceName: "test", Metadata: metadata,
			})
			at = at.Add(time.Duration(rng.Int64N(int64(20*time.Minute))) - time.Minute)
			if at.After(now) {
				at = now // as far as one can see
			}
		}
		classify := func(again bool) {
			m := map[string]any{
				"model_version": fmt.Sprintf("v2.%d", rng.IntN(2)), "topics": topics[rng.IntN(3) : 3+rng.IntN(2)],
			}
			if rng.IntN(5) > 0 {
				m["quality_score"] = float64(rng.IntN(1010)) / 10
			}
			if again {
				m["is_reclassification"] = true
			}
			add("classified", m)
		}
		for range rng.IntN(3) {
			add("crawled", nil)
		}
		if rng.IntN(4) > 0 {
			add("indexed", nil)
		}
		if rng.IntN(6) == 0 {
			continue
		}
		classify(false)
		if rng.IntN(3) == 0 {
			classify(true)
		}
		if rng.IntN(3) > 0 {
			channel := map[string]any{"channel": "articles:" + topics[rng.IntN(3)]}
			add("routed", channel)
			if rng.IntN(4) > 0 {
				add("published", channel)
			}
		}
		if rng.IntN(4) == 0 {
			classify(true)
		}
	}
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
