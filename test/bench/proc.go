package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tick is the unit of processor times in /proc (USER_HZ, 100 on Linux).
const tick = 10 * time.Millisecond

// process is what /proc says of a process.
type process struct {
	parent int
	own    time.Duration // processor time
	ended  time.Duration // that of its children which have ended
}

// stat reads a process. Of one that has ended it returns ok false.
func stat(pid int) (p process, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	// The name may hold anything, but it ends with the last parenthesis.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 15 {
		return p, false
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i], 10, 64); return n }
	return process{
		int(number(1)), time.Duration(number(11)+number(12)) * tick, time.Duration(number(13)+number(14)) * tick,
	}, true
}

// spentBy is the processor time of a process, without its children.
func spentBy(pid int) time.Duration {
	p, _ := stat(pid) // none of one that has ended
	return p.own
}

// spentByFamily is the processor time of a process and all that descend from it, those
// that have ended, too: a server's connections and workers come and go.
func spentByFamily(root int) (sum time.Duration) {
	for _, pid := range family(root) {
		p, _ := stat(pid)
		sum += p.own + p.ended
	}
	return sum
}

// family returns a process and all that descend from it.
func family(root int) []int {
	children := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if p, ok := stat(pid); ok {
			children[p.parent] = append(children[p.parent], pid)
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// clickhouseIn finds the ClickHouse child of a millrace process.
func clickhouseIn(root int) int {
	for _, pid := range family(root) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty when it has ended
		if pid != root && bytes.Contains(line, []byte("\x00clickhouse\x00")) {
			return pid
		}
	}
	return 0
}

func resident(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// proportional is resident memory in which a page that processes share counts
// once in all. It is 0 where the process may not be looked into.
func proportional(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "Pss:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// peaks are the most memory that a process tree was seen to take, in bytes.
type peaks struct {
	RSS, PSS, Root, ClickHouse int64
}

// watcher samples the memory of a process tree.
type watcher struct {
	shares bool // PSS, too

	mu   sync.Mutex
	seen peaks
	stop context.CancelFunc
	done chan struct{}
}

func watch(root int) *watcher { return newWatcher(root, true) }

// watchResident does not tell shared pages apart, which takes longer than the rest.
func watchResident(root int) *watcher { return newWatcher(root, false) }

func newWatcher(root int, shares bool) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{shares: shares, stop: cancel, done: make(chan struct{})}
	go w.run(ctx, root)
	return w
}

func (w *watcher) run(ctx context.Context, root int) {
	defer close(w.done)
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	var pids []int
	var clickhouse int
	for i := 0; ; i++ {
		// What is expensive to read is read once a second.
		rare := i%10 == 0
		if rare {
			pids, clickhouse = family(root), clickhouseIn(root)
		}
		w.sample(root, pids, clickhouse, rare && w.shares)
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

func (w *watcher) sample(root int, pids []int, clickhouse int, shares bool) {
	var rss, pss int64
	for _, pid := range pids {
		rss += resident(pid)
		if shares {
			pss += proportional(pid)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.RSS, w.seen.PSS = max(w.seen.RSS, rss), max(w.seen.PSS, pss)
	w.seen.Root, w.seen.ClickHouse = max(w.seen.Root, resident(root)), max(w.seen.ClickHouse, resident(clickhouse))
}

// end stops sampling and returns what was seen.
func (w *watcher) end() peaks {
	w.stop()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}
