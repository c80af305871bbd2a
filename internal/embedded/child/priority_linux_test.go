package child

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBackground: the threads that are named step back, and no others.
func TestBackground(t *testing.T) {
	own, err := os.ReadFile("/proc/self/comm") // the child is the same program
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{strings.TrimSpace(string(own)): true, "another": false} {
		open := pipe(t)
		var log logged
		c, stop, result := begin(t, "serve", Config{Background: Threads{Name: name, Count: 1}}, &log)
		wantLine(t, open())
		<-c.Ready()
		deadline := time.Now().Add(10 * time.Second)
		if !want {
			deadline = time.Now().Add(100 * time.Millisecond)
		}
		lower := false
		for ; !lower && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			lower = priority(t, c.PID()) < priority(t, os.Getpid())
		}
		if lower != want {
			t.Errorf("%q: a lower priority %v, want %v; log: %s", name, lower, want, log.String())
		}
		stop()
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
}

// priority is that of a process as the kernel tells it: 20 unless it steps back.
func priority(t *testing.T, pid int) int {
	t.Helper()
	p, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
