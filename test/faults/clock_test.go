package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// TestClock: a process' clock is ahead when it starts, jumps while it runs, and
// what it measures does not.
func TestClock(t *testing.T) {
	c := &clock{ahead: 48 * time.Hour}
	ask := startDial(t, c, "/proc/self/exe")
	for _, ahead := range []time.Duration{48 * time.Hour, 0, -3 * time.Hour, 1e4 * time.Hour, -time.Second} {
		if err := c.step(ahead); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		said := ask()
		after := time.Now()
		if at := said.Wall.Add(-ahead); at.Before(before.Round(0)) || at.After(after.Round(0)) {
			t.Errorf("%s ahead: it is %s, not from %s to %s", ahead, at, before, after)
		}
		if said.Since < 0 || said.Since > time.Hour {
			t.Errorf("%s ahead: it has run for %s", ahead, said.Since)
		}
	}
}

// TestHeirs: so does that of what a process starts, which runs already, within a
// moment, and of what was started before that.
func TestHeirs(t *testing.T) {
	c := &clock{ahead: 48 * time.Hour, heirs: true}
	ask := startDial(t, c, "/bin/sh", "-c", "/proc/$$/exe -c '\"$1\"; :' sh \"$0\"; :", self(t))
	for _, ahead := range []time.Duration{48 * time.Hour, 0, -3 * time.Hour} {
		if err := c.step(ahead); err != nil {
			t.Fatal(err)
		}
		limit := time.Now().Add(time.Minute)
		for off := time.Hour; off.Abs() > time.Minute; off = ask().Wall.Sub(time.Now().Add(ahead)) {
			if time.Now().After(limit) {
				t.Fatalf("%s ahead: it is off by %s", ahead, off)
			}
			time.Sleep(heirsEvery / 4)
		}
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startDial starts a program that is, or starts, a dial, by a clock, and returns
// what asks it.
func startDial(t *testing.T, c *clock, name string, args ...string) (ask func() reading) {
	t.Helper()
	if err := clocksWork(); err != nil {
		without(t, err)
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), envPart+"=clock")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := c.start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		c.ended()
		if err := c.step(time.Hour); err != nil {
			t.Errorf("the clock of a process that has ended: %v", err)
		}
	})
	answers := bufio.NewScanner(out)
	return func() (said reading) {
		t.Helper()
		fmt.Fprintln(in)
		if !answers.Scan() {
			t.Fatal(answers.Err())
		}
		if err := json.Unmarshal(answers.Bytes(), &said); err != nil {
			t.Fatal(err)
		}
		return said
	}
}
