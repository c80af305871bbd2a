package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// TestMain lets the tests' own program be started again as a daemon.
func TestMain(m *testing.M) {
	if os.Getenv(envRole) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestWork runs the whole program on a few files, and on a user-defined queue.
func TestWork(t *testing.T) {
	slowtest.Mark(t)
	bin := os.Getenv("MILLRACE_BIN")
	if bin == "" {
		bin = filepath.Join(t.TempDir(), "millrace")
		if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/millrace").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	if _, err := os.Stat("../node/node_modules"); err != nil && os.Getenv("CI") == "" {
		t.Skip("the modules of test/node are not installed: make test does it")
	}
	for name, args := range map[string][]string{"shards": {"-files", "30"}, "own": {"-items", "600"}} {
		t.Run(name, func(t *testing.T) {
			cfg, err := parse(append(args, "-kill", "500ms", "-lease", "15s", "-limit", "10m", "-node",
				"../node", "-seed", "1"), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			cfg.bin = bin
			if err := run(t.Context(), cfg, t.Output()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestStrike: a daemon is killed when it has a piece in hand, and goes on when
// it has none.
func TestStrike(t *testing.T) {
	for notes, want := range map[string]bool{
		"": false, "10 B s f 0 0\n20 E s f 0 0\n": false,
		"10 B s f 0 0\n20 E s f 0 0\n30 B s f 1 0\n": true,
	} {
		d := &daemon{cmd: exec.Command("sleep", "1000"), journal: filepath.Join(t.TempDir(), "notes")}
		if err := os.WriteFile(d.journal, []byte(notes), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if got := d.strike(); got != want {
			t.Errorf("%q: struck is %v", notes, got)
		}
		if !want { // it obeys, so it has not been stopped for good
			d.signal(syscall.SIGTERM)
		}
		_ = d.cmd.Wait() // ended by a signal, which is the point
		if by := d.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); (by == syscall.SIGKILL) != want {
			t.Errorf("%q: ended by %v", notes, by)
		}
	}
}

// TestExcuse: only a daemon with a stock client may have a piece beside another, and
// only around an outage of NATS.
func TestExcuse(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	outages := []outage{{at(100), at(120)}}
	for _, tt := range []struct {
		name, first, second string
		begin               int64
		want                bool
	}{
		{"a plain daemon first", "node2", "http4", 110, true},
		{"a plain daemon second", "go0", "node3", 110, true},
		{"no plain daemon", "go0", "http4", 110, false},
		{"before the outage", "node2", "http4", 90, false},
		{"long after it", "node2", "http4", 130, false},
	} {
		a, b := span{daemon: tt.first, begin: at(tt.begin), end: at(tt.begin + 5)},
			span{daemon: tt.second, begin: at(tt.begin + 1)}
		if got := excuse(a, b, outages); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestOverlap: the check finds two daemons that have a piece at a time, a piece that
// nobody has worked, and one whose end was acknowledged twice.
func TestOverlap(t *testing.T) {
	dir := t.TempDir()
	lives := func(texts ...string) *fleet {
		c := &fleet{}
		for i, text := range texts {
			l := life{daemon: "go", journal: filepath.Join(dir, string(rune('a'+i))), end: time.Unix(0, 90)}
			if err := os.WriteFile(l.journal, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c.daemons = append(c.daemons, &daemon{lives: []life{l}})
		}
		return c
	}
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
		{"another before the death", []string{open, beside}, true},
		{"nobody to its end", []string{open}, true},
		{"given back, then worked", []string{failed, "30 B s f 0 0\n40 E s f 0 0\n"}, false},
		{"given back, and that was all", []string{failed}, true},
		{"acknowledged once", []string{apart + "21 A s f 0 2\n", "30 B s f 0 0\n40 E s f 0 0\n"}, false},
		{"acknowledged twice", []string{apart + "21 A s f 0 2\n", "30 B s f 0 0\n40 E s f 0 0\n41 A s f 0 4\n"}, true},
	} {
		spans, acks, err := lives(tt.notes...).read()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, errs := judge(spans, acks, nil); (len(errs) > 0) != tt.says {
			t.Errorf("%s: %v", tt.name, errs)
		}
	}
}
