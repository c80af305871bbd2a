package e2e

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// running is a process as /proc shows it.
type running struct {
	pid, parent int
	started     string // tells it from a later process with its id
}

// processes lists those that have not ended; none on systems without /proc.
func processes() []running {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []running
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// After the name, which may hold spaces: state, parent, …
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		all = append(all, running{pid: pid, parent: parent, started: fields[19]})
	}
	return all
}

// descendants are a process' children, their children, and so on.
func descendants(pid int) []running {
	all, found := processes(), []running(nil)
	for parents := []int{pid}; len(parents) > 0; parents = parents[1:] {
		for _, p := range all {
			if p.parent == parents[0] {
				found = append(found, p)
				parents = append(parents, p.pid)
			}
		}
	}
	return found
}

// alive are those that still run.
func alive(of []running) []running {
	all := processes()
	return slices.DeleteFunc(slices.Clone(of), func(p running) bool {
		return !slices.ContainsFunc(all, func(q running) bool { return p.pid == q.pid && p.started == q.started })
	})
}
