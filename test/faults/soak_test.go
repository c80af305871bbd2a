package main

import (
	"bufio"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSoakNotices: what grows is told, and so is what could not be measured.
func TestSoakNotices(t *testing.T) {
	if !measurable() {
		t.Skip("this system does not show what processes take")
	}
	steady := slices.Repeat([]sample{{memory: 100, files: 50, goroutines: 20}}, 30)
	change := func(from int, to sample) []sample {
		all := slices.Clone(steady)
		for i := from; i < len(all); i++ {
			all[i] = to
		}
		return all
	}
	for name, tt := range map[string]struct {
		ingest []sample
		length time.Duration
		want   string // nothing is wrong when it is empty
	}{
		"steady": {steady, time.Hour, ""},
		"more memory": {
			change(20, sample{120, 50, 20}), time.Hour,
			"ingest: memory in MB grew from 100 to 120",
		},
		"… in a short soak": {change(20, sample{120, 50, 20}), time.Minute, ""},
		"more files": {
			change(20, sample{100, 500, 20}), time.Minute,
			"ingest: open files grew from 50 to 500",
		},
		"more goroutines": {
			change(20, sample{100, 50, 500}), time.Minute,
			"ingest: goroutines grew from 20 to 500",
		},
		"memory that is hidden": {change(0, sample{-1, 50, 20}), time.Minute, "ingest: memory in MB can't be read"},
		"no metrics":            {change(20, sample{100, 50, -1}), time.Minute, "ingest: goroutines can't be read"},
		"hardly a sample":       {steady[:5], time.Minute, "ingest: 5 samples were taken, want 6"},
		"no sample":             {nil, time.Minute, "ingest: 0 samples were taken, want 6"},
	} {
		t.Run(name, func(t *testing.T) {
			quiet := slices.Repeat([]sample{{memory: 100, files: 50, goroutines: -1}}, 30)
			s := soak{cluster: idle(), taken: map[string][]sample{"ingest": tt.ingest}}
			for _, p := range s.cluster.all() {
				if p.http() == "" {
					s.taken[p.name] = quiet
				}
			}
			if got := strings.Join(s.judge(t.Output(), tt.length), "; "); got != tt.want {
				t.Errorf("says %q, want %q", got, tt.want)
			}
		})
	}
}

// idle is a cluster of which nothing is started, and one projector is held down.
func idle() *cluster {
	part := func(name string, env ...string) *process { return newProcess("", name, "", "", env) }
	down := part("projector-c", "MILLRACE_HTTP_ADDR=127.0.0.1:1")
	down.holds = 1
	return &cluster{
		clickhouse: part("clickhouse"), ingest: part("ingest", "MILLRACE_HTTP_ADDR=127.0.0.1:1"),
		projectors: []*process{down},
		postgres:   part("postgres"), otherIngest: part("ingest-b"), query: part("query"), nats: part("nats"),
	}
}

// TestMeasureTree: what a process has started counts as its own, and a file that both have
// open counts once.
func TestMeasureTree(t *testing.T) {
	if !measurable() {
		t.Skip("this system does not show what processes take")
	}
	cmd := exec.Command("sh", "-c", "exec 3<.; (exec 4<.. 5<..; echo begun; exec sleep 1000) & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	alone, err := proportional(pid)
	if err != nil {
		t.Fatal(err)
	}
	open, err := openFiles(pid)
	if err != nil {
		t.Fatal(err)
	}
	want := 2.0 // the child has the folder above open twice
	for _, n := range open {
		want += float64(n)
	}
	if tree := measure(pid); tree.memory <= alone || tree.files != want {
		t.Errorf("a process of %.3f MB and its child take %+v, want %g open files", alone, tree, want)
	}
}
