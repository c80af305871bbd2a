package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// errNoClocks says why faults that move clocks are left out.
var errNoClocks = errors.New("a process can't be given a clock of its own here (it takes Linux on amd64)")

// clock is what a process takes for the time of day: that of the machine, and
// some whole seconds more or less. It outlives the process, as the clock of a
// machine outlives its programs. A nil clock is the machine's.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
	since time.Time // when it last jumped
	moved bool      // ever
	// heirs: it is that of what the process starts, and of what that does, which
	// notice within heirsNotice.
	heirs bool
	leave func()   // stops following them; nil while the process is down
	err   error    // in following them
	hands *os.File // memory of the process; nil while it is down
	where int64    // of the seconds in it
}

// start starts a process by this clock.
func (c *clock) start(cmd *exec.Cmd) error {
	if c == nil {
		return cmd.Start()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.heirs {
		return c.startMoved(cmd)
	}
	err := cmd.Start()
	if err == nil {
		c.leave = c.attend(cmd.Process.Pid)
	}
	return err
}

const (
	// heirsEvery is how often it is looked for processes that have another time.
	heirsEvery = 100 * time.Millisecond
	// heirsNotice is within what time all have been met.
	heirsNotice = time.Second
)

// attend has the heirs of a process go by this clock, until stop is called.
func (c *clock) attend(pid int) (stop func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(heirsEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			c.mu.Lock()
			ahead := c.ahead
			c.mu.Unlock()
			if err := follow(pid, ahead); err != nil {
				c.mu.Lock()
				c.err = err
				c.mu.Unlock()
			}
		}
	})
	return func() { close(done); ended.Wait() }
}

// ended forgets a process that has ended.
func (c *clock) ended() {
	if c == nil {
		return
	}
	c.mu.Lock()
	leave := c.leave
	c.leave = nil
	if c.hands != nil {
		c.hands.Close()
		c.hands = nil
	}
	c.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// step has the clock jump, so that it is ahead of the machine's, or behind it
// by a negative duration.
func (c *clock) step(ahead time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead, c.since = ahead.Truncate(time.Second), time.Now()
	c.moved = c.moved || c.ahead != 0
	if c.heirs {
		return c.err
	}
	if c.hands == nil {
		return nil // it starts so
	}
	if err := c.set(); err != nil && !gone(err) {
		return fmt.Errorf("move a clock by %s: %w", ahead, err)
	}
	return nil
}

// right tells whether the clock has been that of the machine since a moment.
func (c *clock) right(since time.Time) bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead == 0 && c.since.Before(since)
}

// everMoved tells whether the clock has been another than that of the machine.
func (c *clock) everMoved() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}

// reading is what a process says of its clocks.
type reading struct {
	Wall  time.Time
	Since time.Duration // that it runs
}

// dial is a part that answers each line with what its clocks say.
type dial struct{}

// Run answers until there is nothing to read.
func (dial) Run(context.Context) error {
	begin, answers := time.Now(), json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now := time.Now()
		if err := answers.Encode(reading{now, now.Sub(begin)}); err != nil {
			return err
		}
	}
	return nil
}

// clocksWork tries whether a process can be given a clock.
func clocksWork() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	const ahead = 5 * time.Hour
	cmd := exec.Command(self)
	var out bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout = append(os.Environ(), envPart+"=clock"), strings.NewReader("\n"), &out
	c := &clock{ahead: ahead}
	if err := c.start(cmd); err != nil {
		return fmt.Errorf("%w: %w", errNoClocks, err)
	}
	defer c.ended()
	var said reading
	if err := errors.Join(cmd.Wait(), json.Unmarshal(out.Bytes(), &said)); err != nil {
		return fmt.Errorf("%w: %w", errNoClocks, err)
	}
	if off := time.Since(said.Wall.Add(-ahead)).Abs(); off > time.Minute {
		return fmt.Errorf("%w: it is off by %s", errNoClocks, off)
	}
	return nil
}
