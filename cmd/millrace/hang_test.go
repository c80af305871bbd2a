package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/child"
)

// TestWatch: an engine that does not answer is told of after half a minute, and a machine that has slept is not taken
// for an engine that hangs.
func TestWatch(t *testing.T) {
	w := &watch{name: "postgres", pid: os.Getpid, log: slog.New(slog.DiscardHandler)}
	silent := errors.New("no answer")
	check := w.check().Probe
	for _, step := range []struct {
		err   error
		since time.Duration
		ready bool
		tells bool
	}{
		{nil, watchEvery, true, false},
		{silent, time.Hour, false, false}, // it has slept
		{silent, watchEvery, false, false},
		{nil, watchEvery, true, false},
		{silent, watchEvery + watchTimeout, false, false},
		{silent, watchEvery + watchTimeout, false, false},
		{silent, watchEvery + watchTimeout, false, true},
		{silent, watchEvery, false, true},
		{nil, watchEvery, true, false},
	} {
		w.note(step.err, step.since)
		if ready := check(t.Context()) == nil; ready != step.ready || len(w.warnings()) > 0 != step.tells {
			t.Fatalf("after %+v: ready %v, and it says %q", step, ready, w.warnings())
		}
	}
	w.probe = func(context.Context) error { return silent }
	if err := w.ask(t.Context()); !errors.Is(err, silent) {
		t.Error(err)
	}
}

// TestStopped: a process that a signal has stopped is told from one that runs.
func TestStopped(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip(err)
	}
	if child.Stopped(cmd.Process.Pid) {
		t.Error("a process that runs is stopped")
	}
	w := &watch{name: "x", pid: func() int { return cmd.Process.Pid }}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(w.process(), "kill -CONT"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(w.process())
		}
	}
}
