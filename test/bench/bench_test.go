package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/event"
)

// TestMain lets the tests' own program be started again as a part of a floor.
func TestMain(m *testing.M) {
	if os.Getenv(envPart) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestEverySection runs the whole program on a small backlog, so that it does
// not rot. What it measures is of no account.
func TestEverySection(t *testing.T) {
	slowtest.Mark(t)
	bin := os.Getenv("MILLRACE_BIN")
	if bin == "" {
		bin = filepath.Join(t.TempDir(), "millrace")
		if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/millrace").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	cfg, err := parse([]string{"-events", "2000", "-json"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	cfg.bin = bin
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := measure(ctx, cfg, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, l := range r.Lines {
		sections[l.Section] = true
		small := strings.HasPrefix(l.Name, "processor") || strings.HasSuffix(l.Name, "growth") // told in ticks, and pages
		if l.Value < 0 || l.Value == 0 && !small {
			t.Errorf("%s, %s: %v %s", l.Section, l.Name, l.Value, l.Unit)
		}
	}
	for _, name := range sectionNames {
		if !sections[name] {
			t.Errorf("nothing was measured of %s", name)
		}
	}
	r.Machine.Commit = ""
	if err := r.table(t.Output()); err != nil {
		t.Fatal(err)
	}
}

// TestHistory: the truth is what the generated texts say.
func TestHistory(t *testing.T) {
	const n = 20_000
	end := time.Now()
	h := newHistory(1, n, end)
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	events, articles, size, before := map[string]uint64{}, map[string]map[[32]byte]bool{}, 0, int64(0)
	ids := map[string]bool{}
	for i := range n {
		var r event.Record
		text := h.appendJSON(nil, i)
		if invalid := event.Decode(text, &r); invalid != nil {
			t.Fatalf("%s: %v", text, invalid)
		}
		if invalid := r.Validate(stages, end, false); invalid != nil || r.OccurredAt < before {
			t.Fatalf("%s: %v, after %d", text, invalid, before)
		}
		stage := string(r.Stage)
		if articles[stage] == nil {
			articles[stage] = map[[32]byte]bool{}
		}
		events[stage]++
		articles[stage][r.URLHash] = true
		ids[r.MessageID()], before, size = true, r.OccurredAt, size+len(text)
	}
	for _, c := range h.truth() {
		if c.Events != events[c.Name] || c.Articles != uint64(len(articles[c.Name])) {
			t.Errorf("truth is %+v, the texts have %d events of %d articles", c, events[c.Name], len(articles[c.Name]))
		}
	}
	if len(ids) != n || size < 250*n || size > 350*n {
		t.Errorf("%d ids of %d events, %d bytes", len(ids), n, size)
	}
}

func TestPostsAddUp(t *testing.T) {
	var p posts
	for range 7 {
		p.text()
	}
	got := p.addTo(make([]count, len(stageNames)))
	for i, want := range []uint64{2, 2, 1, 1, 1} {
		if got[i].Events != want || got[i].Articles != want {
			t.Errorf("stage %d: %+v, want %d", i, got[i], want)
		}
	}
}

func TestQuantile(t *testing.T) {
	for q, want := range map[float64]float64{0: 1, .5: 2.5, 1: 4} {
		if got := quantile([]float64{4, 1, 3, 2}, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

// TestDelays: a change is as old as the first message that shows it, messages may
// show several, and those of other views and sources do not count. A source's change
// may be shown before all that was published with it.
func TestDelays(t *testing.T) {
	marks := []mark{
		{Clock: "events", At: 10, Sent: 1000, Durable: 2000, Shown: 3000, Sources: map[string]uint64{"a": 10}},
		{Clock: "items", At: 11, Sent: 1, Durable: 1},
		{Clock: "events", At: 20, Sent: 3000, Durable: 4000, Shown: 4500},
		{Clock: "events", At: 30, Sent: 5000, Durable: 9000, Shown: 7500, Sources: map[string]uint64{"a": 26}},
		{Clock: "events", At: 40, Sent: 7000, Durable: 9000},
	}
	got := []receipt{{at: 1500, to: 9}, {at: 5000, to: 25}, {at: 8000, to: 28}}
	for _, tt := range []struct {
		q       subscriberQuestion
		want    []delay
		missing int
	}{
		{subscriberQuestion{view: "funnel"}, []delay{{3, 4, 2}, {1, 2, 0.5}}, 2},
		{subscriberQuestion{view: "funnel", source: "a"}, []delay{{3, 4, 2}, {0.001, 3, 0.5}}, 0},
		{subscriberQuestion{view: "dlq"}, nil, 0},
	} {
		all, missing := delays(&tt.q, got, marks)
		if !slices.Equal(all, tt.want) || missing != tt.missing {
			t.Errorf("%+v: %v, %d missing; want %v, %d", tt.q, all, missing, tt.want, tt.missing)
		}
	}
}
