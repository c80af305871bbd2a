package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// mustFail runs the program, which has to exit with status 1 and one line that
// holds all of the words.
func mustFail(t testing.TB, env []string, args []string, words ...string) {
	t.Helper()
	p := launch(t, env, nil, args...)
	if status := p.wait(t, startLimit); status != 1 {
		t.Errorf("exit status %d, want 1:\n%s", status, p.log)
	}
	var lines []string
	for line := range strings.Lines(p.log.String()) {
		if !strings.HasPrefix(line, `{"time":`) { // a log record
			lines = append(lines, line)
		} else if strings.Contains(line, `"level":"ERROR"`) {
			t.Errorf("the failure is logged beside being told: %s", line)
		}
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "millrace: ") {
		t.Fatalf("told in %d lines, want one that begins with millrace:\n%s", len(lines), p.log)
	}
	for _, word := range words {
		if !strings.Contains(lines[0], word) {
			t.Errorf("does not say %q: %s", word, lines[0])
		}
	}
}

// TestTakenPort holds the promise that a taken port is told with the setting
// that chooses another.
func TestTakenPort(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	ln, err := net.Listen("tcp", freePort(t))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().String()
	for _, setting := range []string{
		"MILLRACE_HTTP_ADDR", "MILLRACE_NATS_LISTEN", "MILLRACE_CLICKHOUSE_LISTEN", "MILLRACE_CLICKHOUSE_HTTP",
		"MILLRACE_POSTGRES_LISTEN",
	} {
		t.Run(setting, func(t *testing.T) {
			env := append(freePorts(t).env(), setting+"="+taken) // of two, the last holds
			mustFail(t, env, []string{"up", "--no-demo", "--data", dataFolder(t)}, taken, "set "+setting)
		})
	}
}

// TestOtherServersPort holds the promise that a start beside another server
// that uses the same ports ends before it touches that server.
func TestOtherServersPort(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	own := freePorts(t)
	own.ClickHouse = s.ports.ClickHouse
	mustFail(t, own.env(), []string{"up", "--no-demo", "--data", dataFolder(t)}, "MILLRACE_CLICKHOUSE_LISTEN")
	s.post("/events", "application/json", valid(nil))
	s.caughtUp()
}

// TestUnusableData holds the promise that a data folder that cannot be used is
// told with the setting that chooses another.
func TestUnusableData(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustFail(t, freePorts(t).env(), []string{"up", "--no-demo", "--data", filepath.Join(file, "data")},
		"set MILLRACE_DATA")

	s := up(t)
	mustFail(t, freePorts(t).env(), []string{"up", "--no-demo", "--data", s.data}, s.data, "in use by another millrace",
		"set MILLRACE_DATA")
}

// TestMissingEngines holds the promise that missing engines are told with the
// command that installs them.
func TestMissingEngines(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	env := append(freePorts(t).env(), "MILLRACE_ENGINES="+empty)
	mustFail(t, env, []string{"up", "--no-demo", "--data", dataFolder(t)}, empty, `run "millrace engines"`)
}

// TestNewerSchema holds the promise that data of a newer release is refused and
// left alone.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	s := up(t)
	if status, answer := s.asDefault("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)"); status != 200 {
		t.Fatalf("status %d: %s", status, answer)
	}
	s.stop()
	mustFail(t, s.ports.env(), []string{"up", "--no-demo", "--data", s.data}, "99999", "install the newer release")
}

// TestUsage holds the promise that bad usage is exit status 2 and a hint.
func TestUsage(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("no-such-setting: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no command":      {},
		"unknown command": {"down"},
		"unknown flag":    {"up", "--demo-less"},
		"bad value":       {"up", "--dedup-window=soon"},
		"bad stages":      {"up", "--stages=a,b,a"},
		"no file":         {"emit"},
		"unknown role":    {"serve", "--role=janitor"},
		"unknown setting": {"up", "--config=" + config},
		"no address":      {"status", "--url=nats://127.0.0.1:4222"},
	} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, nil, nil, args...)
			if status := p.wait(t, startLimit); status != 2 {
				t.Errorf("exit status %d, want 2:\n%s", status, p.log)
			}
			if log := p.log.String(); !strings.HasPrefix(log, "millrace: ") || !strings.Contains(log, "--help") {
				t.Errorf("told: %s", log)
			}
		})
	}
	for _, args := range [][]string{{"--help"}, {"up", "--help"}, {"version"}, {"--version"}, {"completion", "zsh"}} {
		p := launch(t, nil, nil, args...)
		if status := p.wait(t, startLimit); status != 0 || p.out.String() == "" || p.log.String() != "" {
			t.Errorf("%v: exit status %d, %q on standard output and %q on standard error", args, status, p.out, p.log)
		}
	}
}
