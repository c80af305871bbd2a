package postgres

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of memory in bytes, which Postgres itself does not have: every session may set
// work_mem, and take that many times over.
const (
	// maxProcessMemory is what a process of an analyst's session can take. Postgres refuses
	// the statement that needs more: out of memory.
	maxProcessMemory = 256 << 20
	// maxAnalystMemory is what all sessions of analysts may hold together. Beyond it the
	// session that holds the most is ended.
	maxAnalystMemory = 512 << 20
	// memoryLook is the time between two looks.
	memoryLook = 100 * time.Millisecond
	// ownFor is how long a process counts as Millrace's own: later its number may be another's.
	ownFor = time.Second
)

// limitMemory bounds the memory of analysts until ctx ends.
func limitMemory(ctx context.Context, postmaster int, log *slog.Logger) {
	limited := map[int]bool{} // processes whose own limit is set, or cannot be
	own, read := map[int]bool{}, time.Now()
	tick := time.NewTicker(memoryLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(read) > ownFor {
			clear(own)
			read = time.Now()
		}
		sessions := analystSessions(postmaster, own)
		present := map[int]bool{}
		var total, most int64
		largest := 0
		for leader, s := range sessions {
			for _, pid := range s.processes {
				if present[pid] = true; !limited[pid] {
					limitProcess(pid, log)
				}
			}
			if total += s.memory; s.memory > most {
				largest, most = leader, s.memory
			}
		}
		limited = present
		if total > maxAnalystMemory || most > maxProcessMemory*5/4 {
			log.Warn("the session of an analyst is ended because of the memory it holds", "bytes", most, "all", total)
			_ = unix.Kill(largest, unix.SIGTERM) // it may have ended
		}
	}
}

// limitProcess has the system refuse the process more memory. Where it may not be asked for
// that, as in some containers, what is left is to end the session.
func limitProcess(pid int, log *slog.Logger) {
	limit := unix.Rlimit{Cur: maxProcessMemory, Max: maxProcessMemory}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil); err != nil {
		log.Debug("the memory of an analyst's process cannot be limited", "pid", pid, "error", err)
	}
}

// analystSession is a session with its parallel workers.
type analystSession struct {
	processes []int
	memory    int64 // bytes that are not shared
}

// analystSessions finds the sessions of analysts, by the process that began each. It passes over the processes
// in own, and adds Millrace's own: a connection keeps its login.
func analystSessions(postmaster int, own map[int]bool) map[int]*analystSession {
	sessions := map[int]*analystSession{}
	workers := map[int]int{} // and their leaders
	for _, pid := range children(postmaster) {
		if own[pid] {
			continue
		}
		words := strings.Fields(title(pid))
		switch {
		case len(words) > 2 && words[1] == Analyst:
			sessions[pid] = &analystSession{processes: []int{pid}, memory: privateMemory(pid)}
		case len(words) > 5 && words[1] == "parallel" && words[2] == "worker":
			workers[pid], _ = strconv.Atoi(words[5])
		case len(words) > 3 && words[1] == ownRole:
			own[pid] = true
		}
	}
	for pid, leader := range workers {
		if s := sessions[leader]; s != nil {
			s.processes, s.memory = append(s.processes, pid), s.memory+privateMemory(pid)
		}
	}
	return sessions
}

func children(pid int) (all []int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	for word := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(word); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// title is what a process of Postgres says it does: "postgres: login database address ...".
// Nobody but a superuser can have it say something else.
func title(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return string(bytes.TrimRight(text, "\x00 "))
}

// privateMemory is how many bytes a process holds that no other does.
func privateMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
