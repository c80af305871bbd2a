package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// mostMemory bounds what Millrace takes with all of its processes, in bytes.
const mostMemory = 1_500_000_000

// testGreedyAnalysts: analysts that each take all the memory that they can, at one
// time, are refused by an error that names the setting, and all processes
// together stay within bounds.
func testGreedyAnalysts(t *testing.T, s *server) {
	if treeMemory(s.cmd.Process.Pid) == 0 {
		t.Skip("this system does not tell how much memory a process takes")
	}
	peak := s.watchMemory()
	const analysts, rounds = 4, 3
	var all sync.WaitGroup
	for i := range analysts {
		all.Go(func() {
			for round := range rounds {
				sql := fmt.Sprintf("SELECT length(groupArray(cityHash64(number + %d))) FROM numbers(1000000000)",
					i+round)
				status, _, answer := s.sql("analyst", sql)
				if status == http.StatusOK || !strings.Contains(answer, "MEMORY_LIMIT_EXCEEDED") ||
					!strings.Contains(answer, "MILLRACE_CLICKHOUSE_MAX_MEMORY") {
					t.Errorf("status %d: %.300s", status, answer)
				}
			}
		})
	}
	all.Wait()
	most := peak()
	t.Logf("%d greedy analysts: the processes take %d MB at most", analysts, most/1e6)
	if most > mostMemory {
		t.Errorf("the processes take %d bytes, want at most %d", most, mostMemory)
	}
}

// watchMemory looks at the memory of all processes until the function that it
// returns is called, which returns the most that it has seen.
func (s *server) watchMemory() (peak func() int64) {
	end, seen := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for {
			most = max(most, treeMemory(s.cmd.Process.Pid))
			select {
			case <-look.C:
			case <-end:
				seen <- most
				return
			}
		}
	}()
	return func() int64 { close(end); return <-seen }
}

// treeMemory is what a process and its descendants hold in memory, in which a page
// that they share counts once; 0 where the system does not tell.
func treeMemory(root int) (total int64) {
	for _, p := range append(descendants(root), running{pid: root}) {
		total += proportional(p.pid)
	}
	return total
}

// proportional is a process' share of the memory that it holds.
func proportional(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0 // it has ended
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "Pss:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
