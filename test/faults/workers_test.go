package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// TestWorkers has workers of all kinds work, while they and what they need are killed.
func TestWorkers(t *testing.T) {
	slowtest.Mark(t)
	if _, err := os.Stat("../node/node_modules"); err != nil {
		without(t, errors.New("the modules of test/node are not installed: make test does it"))
	}
	cfg, err := parse(strings.Fields("-work 600 -node ../node -seed 1 -for 20s -groups 1 -rate 60"), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	r, err := run(t.Context(), cfg, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if r.print(t.Output()); r.failed() {
		t.Error("see above")
	}
}

func TestWorkersFlags(t *testing.T) {
	for _, bad := range []string{"-work=-1", "-work=1 -soak", "-work=1 -peer=plain", "-work=1 -from=x", "-work=1 -faults=jump-clock"} {
		if _, err := parse(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestStrike: a worker is killed when it has a piece in hand, and goes on when it has
// none.
func TestStrike(t *testing.T) {
	for notes, want := range map[string]bool{
		"": false, "10 B s f 0 0\n20 E s f 0 0\n": false,
		"10 B s f 0 0\n20 E s f 0 0\n30 B s f 1 0\n": true,
	} {
		dir := t.TempDir()
		w := &worker{newProcess(dir, "w", "sleep", "", nil, "1000"), filepath.Join(dir, "notes")}
		must(t, os.WriteFile(w.journal, []byte(notes), 0o600))
		ended := make(chan error, 1)
		go func() { ended <- w.once(t.Context()) }()
		if !within(10*time.Second, func() bool { return w.pid() != 0 }) {
			t.Fatal("it does not start")
		}
		if got := w.strike(); got != want {
			t.Errorf("%q: struck is %v", notes, got)
		}
		if !want { // it obeys, so it has not been stopped for good
			w.signal(syscall.SIGTERM)
		}
		must(t, <-ended)
		if asked := w.asked; asked == want {
			t.Errorf("%q: it was asked to end: %v", notes, asked)
		}
	}
}

// TestExcuse: only a worker with a stock client may have a piece beside another, and
// only around an absence of NATS.
func TestExcuse(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	s := &saboteur{injected: map[kind][]injection{
		killNATS: {{begin: at(100), held: time.Second}}, killPostgres: {{begin: at(200), held: time.Minute}},
	}}
	for _, tt := range []struct {
		name, first, second string
		begin               int64
		want                bool
	}{
		{"a plain worker first", "node2", "http4", 110, true},
		{"a plain worker second", "go0", "node3", 110, true},
		{"no plain worker", "go0", "http4", 110, false},
		{"before the absence", "node2", "http4", 90, false},
		{"long after it", "node2", "http4", 130, false},
		{"Postgres is away", "node2", "http4", 210, false},
	} {
		a, b := span{worker: tt.first, begin: at(tt.begin), end: at(tt.begin + 5)},
			span{worker: tt.second, begin: at(tt.begin + 1)}
		if got := excuse(a, b, s.away()); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestTwoWorkers: the check finds two workers that have a piece at a time, a piece that
// nobody has worked, and one whose end was acknowledged twice.
func TestTwoWorkers(t *testing.T) {
	const apart, beside, open, failed = "10 B s f 0 0\n20 E s f 0 0\n", "15 B s f 0 0\n25 E s f 0 0\n",
		"10 B s f 0 0\n", "10 B s f 0 0\n20 F s f 0 0\n"
	for _, tt := range []struct {
		name  string
		notes []string
		says  bool
	}{
		{"one after the other", []string{apart, "30 B s f 0 0\n40 E s f 0 0\n"}, false},
		{"two at a time", []string{apart, beside}, true},
		{"a dead one, then another", []string{open, "95 B s f 0 0\n99 E s f 0 0\n"}, false},
		{"a dead one, and again in its next life", []string{open + "95 B s f 0 0\n99 E s f 0 0\n"}, false},
		{"another after the death, before the next life", []string{open + "99 B s f 0 0\n100 E s f 0 0\n", "92 B s f 0 0\n95 E s f 0 0\n"}, false},
		{"another before the death", []string{open, beside}, true},
		{"nobody to its end", []string{open}, true},
		{"given back, then worked", []string{failed, "30 B s f 0 0\n40 E s f 0 0\n"}, false},
		{"given back, and that was all", []string{failed}, true},
		{"acknowledged once", []string{apart + "21 A s f 0 2\n", "30 B s f 0 0\n40 E s f 0 0\n"}, false},
		{"acknowledged twice", []string{apart + "21 A s f 0 2\n", "30 B s f 0 0\n40 E s f 0 0\n41 A s f 0 4\n"}, true},
	} {
		v, s, dir := &workersVerdict{}, newWorkerSpans(), t.TempDir()
		for i, text := range tt.notes {
			w := &worker{newProcess(dir, "go", "", "", nil), filepath.Join(dir, string(rune('a'+i)))}
			w.ends = []time.Time{time.Unix(0, 90), time.Unix(0, 200)}
			must(t, os.WriteFile(w.journal, []byte(text), 0o600))
			must(t, w.read(s))
		}
		if s.judge(v, nil); (len(v.mismatches) > 0) != tt.says {
			t.Errorf("%s: %q", tt.name, v.mismatches)
		}
	}
}
