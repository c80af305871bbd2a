package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/event"
)

// TestMain lets the tests' own program be started again as the NATS server.
func TestMain(m *testing.M) {
	if os.Getenv(envPart) != "" {
		main()
		return
	}
	if status, done := withOwnMounts(); done {
		os.Exit(status)
	}
	os.Exit(m.Run())
}

// regressions are runs whose seed once found a fault of the product, shortened:
// docs/fault-runs.md says what each found. A seed proves something new only the
// first time, which is what make faults is for.
var regressions = []string{
	// a live view of one source that fell to zeros
	"-seed 770032 -for 8s -rate 100 -groups 3 -overlap",
	// two runs of a job at one time
	"-seed 61001 -for 15s -rate 60 -groups 1 -overlap " +
		"-faults kill-postgres,unplug-postgres,kill-nats,jump-clock,skew-clocks,kill-scheduler",
	// an item that stayed started for ever, a position without its counts
	"-seed 2 -for 14s -rate 200 -groups 4 -nodes 3 -faults kill-node,partition-node",
}

// TestFaults breaks an installation as runs did that once failed; a short run, as the first of them did. With MILLRACE_FAULTS_SEED all have that
// seed; 0 stands for a random one. What fails is tried again by the command that
// is printed.
func TestFaults(t *testing.T) {
	seed := os.Getenv("MILLRACE_FAULTS_SEED")
	for i, flags := range regressions {
		if seed != "" {
			flags += " -seed " + seed
		}
		t.Run(flags, func(t *testing.T) {
			if i > 0 {
				slowtest.Mark(t)
			}
			cfg, err := parse(strings.Fields(flags), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			r, err := run(ctx, cfg, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			r.print(t.Output())
			if r.failed() {
				t.Errorf("seed %d: see above", cfg.seed)
			}
		})
	}
}

// TestHistory: what the history says of its events is what the contract says,
// each identity says one thing, and there are repeats of all kinds.
func TestHistory(t *testing.T) {
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	h := newHistory(3, 400, begin)
	facts, bodies, invalid, repeated, reworded, taken := map[string]*fact{}, map[string]bool{}, 0, 0, 0, 0
	for range 2000 {
		for _, it := range h.next().items {
			now := h.begin.Add(time.Duration(h.ticks) * tick)
			var r event.Record
			bad := event.Decode([]byte(it.body), &r)
			if bad == nil {
				bad = r.Validate(stages, now, true)
			}
			if (bad == nil) != (it.fact != nil && it.fact.valid(now)) {
				t.Fatalf("%s: %v", it.body, bad)
			}
			if bad != nil {
				invalid++
				continue
			}
			id := r.Identity()
			if it.turn == stockLast {
				if f := facts[it.fact.id]; it.fact.id != string(id[:]) || f == nil || !f.conflicts(it.fact) {
					t.Fatalf("%s takes no other's key: %+v", it.body, f)
				}
				taken++
				continue
			}
			if it.fact.id != string(id[:]) || it.fact.msgID != r.MessageID() || it.fact.stage != string(r.Stage) {
				t.Fatalf("%s: %+v", it.body, it.fact)
			}
			if f := facts[it.fact.id]; f != nil {
				if *f != *it.fact {
					t.Fatalf("one identity says two things: %+v, %+v", f, it.fact)
				}
				repeated++
				if !bodies[it.body] {
					reworded++
				}
			}
			facts[it.fact.id], bodies[it.body] = it.fact, true
		}
	}
	if taken < 100 || invalid < 500 || repeated < 2000 || reworded < 100 {
		t.Errorf("%d events: %d invalid, %d repeated, %d in other words", len(facts), invalid, repeated, reworded)
	}
}

// TestRepeatable: history and plan are functions of the seed.
func TestRepeatable(t *testing.T) {
	begin := time.Now()
	a, b := newHistory(5, 300, begin), newHistory(5, 300, begin)
	p, q := newPlan(5, allKinds()), newPlan(5, allKinds())
	for range 300 {
		x, y := a.next(), b.next()
		same := slices.EqualFunc(x.items, y.items, func(i, j item) bool {
			return i.body == j.body && i.msgID == j.msgID
		})
		if x.http != y.http || !same || p.next() != q.next() {
			t.Fatal("one seed, two runs")
		}
	}
}

// TestNotices: a loss, a double, a wrong row and a wrong letter are found.
func TestNotices(t *testing.T) {
	h := newHistory(1, 100, time.Now())
	l := newLedger()
	j := &journal{
		first: map[string]uint64{}, invalid: map[uint64]string{7: "{"}, bodies: map[string]bool{},
		letters: map[uint64]int{8: 1},
	}
	it := encode(h.fresh())
	l.sending([]item{it})
	l.acknowledged([]item{it})
	v := &verdict{}
	if facts, _ := v.compareStream(l, j); v.streamLosses != 1 || len(facts) != 1 {
		t.Errorf("an acknowledged event that is not on the stream: %+v", v)
	}
	v.compareLetters(j)
	if len(v.mismatches) != 3 {
		t.Errorf("a letter too many and one too few: %q", v.mismatches)
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range []string{"-faults=flood", "-rate=0", "-for=-1s", "now", "-such", "-soak -from=x", "-from=x -peer=plain"} {
		if _, err := parse(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	cfg, err := parse(strings.Fields("-seed 9 -faults kill-nats,rolling -for 3s"), io.Discard)
	if err != nil || cfg.seed != 9 || !slices.Equal(cfg.kinds, []kind{killNATS, rolling}) {
		t.Errorf("%+v, %v", cfg, err)
	}
}
