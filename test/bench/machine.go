package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine is where and of what the figures are.
type machine struct {
	CPU    string  `json:"cpu"`
	Cores  int     `json:"cores"`
	Memory float64 `json:"memory_gb"`
	Kernel string  `json:"kernel"`
	Load   string  `json:"load_average"` // before the first run
	Go     string  `json:"go"`
	Commit string  `json:"commit"`
	Date   string  `json:"date"`
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %.0f GB, Linux %s, load average before %s\n%s, commit %s, %s\n",
		m.CPU, m.Cores, m.Memory, m.Kernel, m.Load, m.Go, m.Commit, m.Date)
}

// thisMachine reads what it can; what it can't is "unknown" and no reason not
// to measure.
func thisMachine() machine {
	memory, _ := strconv.ParseFloat(strings.TrimSuffix(entry("/proc/meminfo", "MemTotal"), " kB"), 64)
	return machine{
		CPU: entry("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Memory: memory * 1024 / 1e9,
		Kernel: firstWord("/proc/sys/kernel/osrelease", 1), Load: firstWord("/proc/loadavg", 3), Go: runtime.Version(),
		Commit: commit(),
		Date:   time.Now().UTC().Format(time.DateOnly),
	}
}

const unknown = "unknown"

// entry finds a "key : value" line.
func entry(path, key string) string {
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return unknown
}

func firstWord(path string, words int) string {
	data, _ := os.ReadFile(path)
	fields := strings.Fields(string(data))
	if len(fields) < words {
		return unknown
	}
	return strings.Join(fields[:words], " ")
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return unknown
	}
	return strings.TrimSpace(string(out))
}
