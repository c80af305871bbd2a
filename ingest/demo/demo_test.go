package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/ingest/demo/internal/sample"
	"github.com/millrace-io/millrace/schemas/event"
)

// The tests run by the clock of a synctest bubble, in which time passes at
// once and exactly.

// sent is an event that was stored, and when.
type sent struct {
	event.Event
	at time.Time
}

// recorder is a server that stores what it gets, unless fail says otherwise.
type recorder struct {
	fail func([]event.Event) ([]client.Outcome, error)
	sent []sent
}

func (r *recorder) EmitBatch(_ context.Context, events []event.Event) ([]client.Outcome, error) {
	if r.fail != nil {
		if outcomes, err := r.fail(events); err != nil {
			return outcomes, err
		}
	}
	for _, e := range events {
		r.sent = append(r.sent, sent{e, time.Now()})
	}
	return make([]client.Outcome, len(events)), nil
}

func parse(t testing.TB, list string) event.Stages {
	stages, err := event.ParseStages(list)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// run runs a demo for some time and waits for its end.
func run(t *testing.T, cfg Config, r *recorder, log io.Writer, d time.Duration) {
	t.Helper()
	demo, err := New(cfg, r, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := demo.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == nil {
		t.Fatal("it ended before its context did")
	}
}

// check decodes and validates every event as the projector does, and returns
// their stages.
func check(t *testing.T, stages event.Stages, all []sent) map[string]int {
	t.Helper()
	counts := map[string]int{}
	ids := map[event.Identity]bool{}
	var r event.Record
	for _, s := range all {
		text, err := json.Marshal(s.Event)
		if err != nil {
			t.Fatal(err)
		}
		if err := event.Decode(text, &r); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := r.Validate(stages, s.at, true); err != nil {
			t.Fatalf("%s at %s: %v", text, s.at, err)
		}
		if s.OccurredAt.After(s.at) || r.Late(s.at) || s.at.Sub(s.OccurredAt) > event.MaxAge {
			t.Fatalf("%s at %s: late, or in the future", text, s.at)
		}
		if s.Metadata["demo"] != true || !strings.HasPrefix(s.ServiceName, "demo-") {
			t.Fatalf("%s: does not look like a demo", text)
		}
		if ids[r.Identity()] {
			t.Fatalf("%s: sent before", text)
		}
		ids[r.Identity()] = true
		counts[s.Stage]++
	}
	return counts
}

func TestSample(t *testing.T) {
	if len(sampleFile) > 2<<20 {
		t.Errorf("the sample has %d bytes", len(sampleFile))
	}
	s, err := sample.Read(bytes.NewReader(sampleFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Sightings) < 40_000 || len(s.Articles) < 25_000 {
		t.Errorf("only %d sightings of %d articles", len(s.Sightings), len(s.Articles))
	}
}

// TestSilence: in the warm-up one source falls silent and comes back, while others
// go on.
func TestSilence(t *testing.T) {
	s, err := sample.Read(bytes.NewReader(sampleFile))
	if err != nil {
		t.Fatal(err)
	}
	silent := busiest(s)
	for _, seed := range []uint64{1, 2, 603, 716, 922} { // the last three begin in a stretch without the source
		synctest.Test(t, func(t *testing.T) {
			var r recorder
			stages := parse(t, event.DefaultStages)
			run(t, Config{Stages: stages, WarmUp: true, Seed: seed}, &r, io.Discard, time.Second)
			start := r.sent[0].at
			// The last articles before the silence are on their way for some seconds more.
			since, until := start.Add(-silentSince).Add(time.Minute), start.Add(-silentUntil)
			var before, within, after, others int
			for _, e := range r.sent {
				inside := e.OccurredAt.After(since) && e.OccurredAt.Before(until)
				switch {
				case e.SourceName != silent:
					if inside {
						others++
					}
				case inside:
					within++
				case e.OccurredAt.Before(until):
					before++
				default:
					after++
				}
			}
			if before == 0 || within > 0 || after == 0 || others == 0 {
				t.Errorf("seed %d: %d before, %d within, %d after; %d of others", seed, before, within, after, others)
			}
		})
	}
}

// TestWholeSample replays more than the sample holds, so that it begins again.
func TestWholeSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		stages := parse(t, event.DefaultStages)
		run(t, Config{Stages: stages, Seed: 1, Pace: 1000}, r, t.Output(), 150*time.Second)
		counts := check(t, stages, r.sent)
		for _, pair := range [][2]string{
			{"crawled", "indexed"},
			{"indexed", "classified"},
			{"classified", "routed"},
			{"routed", "published"},
		} {
			if counts[pair[0]] <= counts[pair[1]] {
				t.Errorf("no funnel: %v", counts)
			}
		}
		if counts["published"] < counts["crawled"]/5 {
			t.Errorf("too narrow a funnel: %v", counts)
		}
		again := slices.ContainsFunc(r.sent, func(s sent) bool { return s.Metadata["is_reclassification"] == true })
		if !again {
			t.Error("the sample did not begin again")
		}
		checkOrder(t, stages, r.sent)
	})
}

// checkOrder wants each stage of an article to be preceded by the one before.
func checkOrder(t *testing.T, stages event.Stages, all []sent) {
	t.Helper()
	last := map[[2]string]time.Time{}
	for i, s := range all {
		last[[2]string{s.ArticleURL, s.Stage}] = s.OccurredAt
		place, _ := stages.Index([]byte(s.Stage))
		if place > 0 {
			before, ok := last[[2]string{s.ArticleURL, stages.Names()[place-1]}]
			if !ok || !before.Before(s.OccurredAt) || s.OccurredAt.Sub(before) > 10*time.Second {
				t.Fatalf("event %d: %s of %s at %s, the stage before at %s", i, s.Stage, s.ArticleURL,
					s.OccurredAt, before)
			}
		}
		if i > 0 && s.OccurredAt.Before(all[i-1].OccurredAt) {
			t.Fatalf("event %d: not in the order of time", i)
		}
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const minutes = 20
		start := time.Now()
		r := &recorder{}
		run(t, Config{Stages: parse(t, event.DefaultStages), Seed: 2}, r, t.Output(), minutes*time.Minute)
		if !r.sent[0].at.Equal(start) {
			t.Errorf("the first event came after %s", r.sent[0].at.Sub(start))
		}
		if mean := float64(len(r.sent)) / (minutes * 60); mean < 0.9*defaultPace || mean > 1.1*defaultPace {
			t.Errorf("%.1f events a second, want about %d", mean, defaultPace)
		}
		perSecond := make([]int, minutes*60)
		for _, s := range r.sent {
			perSecond[min(int(s.at.Sub(start)/time.Second), len(perSecond)-1)]++
		}
		least, most := slices.Min(perSecond[15:]), slices.Max(perSecond)
		if least > defaultPace*3/4 || most < defaultPace*5/4 || most > 5*defaultPace {
			t.Errorf("from %d to %d events a second", least, most)
		}
		t.Logf("from %d to %d events a second", least, most)
	})
}

func TestWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := &recorder{}
		stages := parse(t, event.DefaultStages)
		run(t, Config{Stages: stages, Seed: 3, WarmUp: true}, r, t.Output(), 30*time.Second)
		check(t, stages, r.sent)
		checkOrder(t, stages, r.sent)
		past, recent := 0, 0
		for _, s := range r.sent {
			isPast := s.OccurredAt.Before(start)
			if isPast != (s.Metadata["backfilled"] == true) {
				t.Fatalf("backfilled is wrong: %+v", s)
			}
			if isPast {
				past++
			}
			if isPast && start.Sub(s.OccurredAt) < time.Hour {
				recent++
			}
			if start.Sub(s.OccurredAt) > warmUpSpan {
				t.Fatalf("%+v is before the span", s)
			}
		}
		if past < warmUpEvents*9/10 || past > warmUpEvents*11/10 || recent < past/5 || recent > past/2 {
			t.Errorf("%d events of the past, %d of its last hour", past, recent)
		}
		if !r.sent[past-1].at.Equal(start) || r.sent[0].OccurredAt.After(start.Add(-5*time.Hour)) {
			t.Error("the past did not come at once")
		}
	})
}

func TestOtherStages(t *testing.T) {
	for _, list := range []string{"submitted,checked,approved,requested,paid", "one", "published,crawled"} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			stages := parse(t, list)
			run(t, Config{Stages: stages, Seed: 4, WarmUp: true}, r, t.Output(), time.Minute)
			counts := check(t, stages, r.sent)
			checkOrder(t, stages, r.sent)
			for i, name := range stages.Names() {
				if counts[name] == 0 || i > 0 && counts[name] >= counts[stages.Names()[i-1]] {
					t.Errorf("%s: no funnel: %v", list, counts)
				}
			}
		})
	}
}

func TestSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stages := parse(t, event.DefaultStages)
		start := time.Now()
		texts := map[string]int{}
		for _, seed := range []uint64{7, 7, 8} {
			p := newPlayer(Config{Stages: stages, Seed: seed, Pace: 50}, mustRead(t))
			p.warmUp(start)
			text, err := json.Marshal(p.due(start))
			if err != nil {
				t.Fatal(err)
			}
			texts[string(text)]++
		}
		if len(texts) != 2 {
			t.Errorf("%d different histories, want 2", len(texts))
		}
	})
}

func mustRead(t *testing.T) *sample.Sample {
	s, err := sample.Read(bytes.NewReader(sampleFile))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConfig(t *testing.T) {
	stages := parse(t, event.DefaultStages)
	log := slog.New(slog.DiscardHandler)
	for _, cfg := range []Config{{}, {Stages: stages, Pace: -1}, {Stages: stages, Pace: 1001}} {
		if _, err := New(cfg, &recorder{}, log); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
	if _, err := New(Config{Stages: stages}, nil, log); err == nil {
		t.Error("no publisher was accepted")
	}
	if _, err := New(Config{Stages: stages}, &recorder{}, log); err != nil {
		t.Error(err)
	}
}

// TestHistory: every day of the weeks before the warm-up has its events, which are marked as
// backfilled and are of articles that the replay does not have.
func TestHistory(t *testing.T) {
	for _, list := range []string{event.DefaultStages, "submitted,checked,approved"} {
		synctest.Test(t, func(t *testing.T) {
			var r, live recorder
			stages := parse(t, list)
			cfg := Config{Stages: stages, Seed: 5, WarmUp: true}
			demo, err := New(cfg, &r, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := demo.History(ctx); err != nil {
				t.Fatal(err)
			}
			if took := r.sent[len(r.sent)-1].at.Sub(start); took > 15*time.Second {
				t.Errorf("it took %s", took)
			}
			var perDay [historyDays]int
			var record event.Record
			articles := map[string]bool{}
			for i, s := range r.sent {
				age := start.Sub(s.OccurredAt)
				if age < warmUpSpan || age > historyDays*24*time.Hour || s.Metadata["backfilled"] != true {
					t.Fatalf("%s old: %+v", age, s.Event)
				}
				perDay[int((age-1)/(24*time.Hour))]++
				articles[s.ArticleURL] = true
				if i%20 > 0 { // they are many, and alike
					continue
				}
				text, err := json.Marshal(s.Event)
				if err != nil {
					t.Fatal(err)
				}
				if invalid := event.Decode(text, &record); invalid != nil {
					t.Fatalf("%s: %v", text, invalid)
				}
				if invalid := record.Validate(stages, s.at, true); invalid != nil {
					t.Fatalf("%s: %v", text, invalid)
				}
			}
			for day, n := range perDay {
				if n < historyPerDay/3 || n > 2*historyPerDay {
					t.Errorf("%d events %d days ago", n, day)
				}
			}
			run(t, cfg, &live, io.Discard, 10*time.Second)
			for _, s := range live.sent {
				if articles[s.ArticleURL] {
					t.Fatalf("the replay has an article of the history: %s", s.ArticleURL)
				}
			}
		})
	}
}

// TestNoHistory: a stream that is not empty gets no history again.
func TestNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		demo, err := New(Config{Stages: parse(t, event.DefaultStages)}, &r, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := demo.History(ctx); err != nil || len(r.sent) > 0 {
			t.Errorf("%d events, %v", len(r.sent), err)
		}
	})
}

// TestRestarts: a replay that is started again has new articles, wherever it begins.
func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		articles := map[string]int{}
		for start := range 3 {
			var r recorder
			run(t, Config{Stages: parse(t, event.DefaultStages), Seed: 6}, &r, io.Discard, 10*time.Second)
			for _, s := range r.sent {
				if before, known := articles[s.ArticleURL]; known && before != start {
					t.Fatalf("start %d replays an article of start %d: %s", start, before, s.ArticleURL)
				}
				articles[s.ArticleURL] = start
			}
		}
	})
}

func TestEdition(t *testing.T) {
	for article, want := range map[string]string{
		"https://example.com/a":                            "https://example.com/a?demo=x",
		"https://example.com/a?b=1":                        "https://example.com/a?b=1&demo=x",
		"https://example.com/a#b":                          "https://example.com/a?demo=x#b",
		"https://example.com/" + strings.Repeat("a", 2000): "https://example.com/" + strings.Repeat("a", 2000),
	} {
		if got := editionOf(article, "x"); got != want {
			t.Errorf("%s: %s, want %s", article, got, want)
		}
	}
}

// TestSites: the sources that are registered have names and URLs of their own, and some of them fail. That they break
// no rule is for the test of the whole demonstration.
func TestSites(t *testing.T) {
	c := crawl{work: work{Demo: &Demo{sample: mustRead(t)}}}
	seen := map[string]bool{}
	sites := c.sites()
	disabled, refuse, waver := 0, 0, 0
	for i, s := range sites {
		if _, err := json.Marshal(s); err != nil || seen[s.Name] || seen[s.URL] {
			t.Errorf("%+v: %v", s, err)
		}
		seen[s.Name], seen[s.URL] = true, true
		switch n := hash(s.Name) % 8; {
		case !s.Enabled:
			disabled++
		case n == 0 && i != pausedJob:
			refuse++
		case n == 1 && i != pausedJob:
			waver++
		}
	}
	if len(sites) != crawlSources || disabled == 0 || refuse == 0 || waver == 0 {
		t.Errorf("%d sources, %d disabled, %d that always fail, %d that do now and then", len(sites), disabled, refuse, waver)
	}
}
