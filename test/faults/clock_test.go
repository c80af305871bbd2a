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
	if err := clocksWork(); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := &clock{ahead: 48 * time.Hour}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envPart+"=clock")
	ask, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := c.start(cmd); err != nil {
		t.Fatal(err)
	}
	defer func() {
		ask.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		c.ended()
		if err := c.step(time.Hour); err != nil {
			t.Errorf("the clock of a process that has ended: %v", err)
		}
	}()
	answers := bufio.NewScanner(out)
	for _, ahead := range []time.Duration{48 * time.Hour, 0, -3 * time.Hour, 1e4 * time.Hour, -time.Second} {
		if err := c.step(ahead); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		fmt.Fprintln(ask)
		if !answers.Scan() {
			t.Fatal(answers.Err())
		}
		after := time.Now()
		var said reading
		if err := json.Unmarshal(answers.Bytes(), &said); err != nil {
			t.Fatal(err)
		}
		if at := said.Wall.Add(-ahead); at.Before(before.Round(0)) || at.After(after.Round(0)) {
			t.Errorf("%s ahead: it is %s, not from %s to %s", ahead, at, before, after)
		}
		if said.Since < 0 || said.Since > time.Hour {
			t.Errorf("%s ahead: it has run for %s", ahead, said.Since)
		}
	}
}
