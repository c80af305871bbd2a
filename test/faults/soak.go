package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/gorilla/websocket"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/schemas/stream"
)

// A soak publishes and asks without faults, and holds what the parts take in
// its last sixth to what they took when they were warm: in the sixth after its
// first third. Memory goes by the median. Of open files and goroutines it is the
// least that counts, for a burst holds some while it lasts, and a leak for good.
const (
	// soakPool bounds the articles, for what is counted exactly takes memory.
	soakPool = 5000
	// soakLate bounds the quarters of an hour that events come late for: the sets
	// of articles of all those that are held grow until each has every article.
	soakLate = time.Hour
	// soakAged bounds those of backfills in the same way: the rows of forty days
	// grow until they fill a projector's 128 MiB, which takes hours.
	soakAged = 2 * time.Hour
	// soakLetters is how many dead letters an operator keeps who purges them:
	// each has a subject of its own, and NATS an index of subjects in memory.
	soakLetters = 1000
	// soakAge is how long the stream keeps events: what it takes grows with
	// what is in it.
	soakAge = 2 * time.Minute
	// soakLong is from when on memory is judged: caches fill in minutes.
	soakLong = 10 * time.Minute
	// soakOpen is by how many open files or goroutines a part may differ from
	// one moment to another: ClickHouse opens those of every part that it writes
	// or merges, and who comes to lead the queues starts forty workers. One left
	// behind by each visit passes it in seconds.
	soakOpen = 100
	// soakGrowth is by what part something may have grown.
	soakGrowth = 0.10
	// soakLeast is how many samples tell something.
	soakLeast = 6
)

// sample is what a part takes at a moment, with all that it has started; a
// negative number is not known.
type sample struct {
	memory     float64 // MB; of what several processes share, each has its part
	files      float64 // open files, connections among them; see openFiles
	goroutines float64
}

// figure is a field of a sample.
type figure struct {
	name  string
	of    func(sample) float64
	least float64       // by which it may grow besides
	from  time.Duration // it is judged in soaks that last as long
}

const goroutines = "goroutines"

var figures = []figure{
	{"memory in MB", func(s sample) float64 { return s.memory }, 5, soakLong},
	{"open files", func(s sample) float64 { return s.files }, soakOpen, 0},
	{goroutines, func(s sample) float64 { return s.goroutines }, soakOpen, 0},
}

// soak takes samples of all parts, and keeps visitors coming.
type soak struct {
	cluster *cluster
	js      jetstream.JetStream
	taken   map[string][]sample // by part
}

// run takes ten samples a minute, or twenty in all, until ctx ends.
func (s *soak) run(ctx context.Context, length time.Duration) {
	visits, leave := errgroup.WithContext(ctx)
	for range 4 {
		visits.Go(func() error { s.visit(leave); return nil })
	}
	visits.Go(func() error { s.purge(leave); return nil })
	tick := time.NewTicker(min(6*time.Second, length/20))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.take(ctx)
		case <-ctx.Done():
			_ = visits.Wait() // visitors report nothing
			return
		}
	}
}

// visit opens a WebSocket, waits for what it shows, asks over HTTP, and leaves.
func (s *soak) visit(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if conn, resp, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+s.cluster.queryAddr+"/api/v1/live",
			nil); err == nil {
			resp.Body.Close()
			_ = conn.WriteJSON(map[string]string{"op": "subscribe", "id": "a", "view": "funnel", "period": "24h"})
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			_, _, _ = conn.ReadMessage()
			conn.Close()
		}
		for _, path := range []string{"/api/v1/funnel?period=24h", "/api/v1/events?limit=5", "/ready", "/metrics"} {
			_, _ = fetchOnce(ctx, http.MethodGet, "http://"+s.cluster.queryAddr+path, "")
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// purge removes dead letters every now and then.
func (s *soak) purge(ctx context.Context) {
	for ctx.Err() == nil {
		if letters, err := s.js.Stream(ctx, stream.DLQ); err == nil {
			_ = letters.Purge(ctx, jetstream.WithPurgeKeep(soakLetters)) // it is purged the next time
		}
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
		}
	}
}

func (s *soak) take(ctx context.Context) {
	for _, p := range s.cluster.all() {
		pid := p.pid()
		if pid == 0 {
			continue
		}
		now := measure(pid)
		if addr := p.http(); addr != "" {
			now.goroutines = gauge(ctx, addr, "go_goroutines")
		}
		if s.taken == nil {
			s.taken = map[string][]sample{}
		}
		s.taken[p.name] = append(s.taken[p.name], now)
	}
}

// judge prints what was measured, and returns what has grown, and what is not
// known of parts that were not held down.
func (s *soak) judge(out io.Writer, length time.Duration) (wrong []string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "part\tmemory warm, end (MB)\topen files\tgoroutines\tmemory over time\t")
	for _, p := range s.cluster.all() {
		all := s.taken[p.name]
		if len(all) == 0 && p.held() {
			continue
		}
		if len(all) < soakLeast {
			wrong = append(wrong, fmt.Sprintf("%s: %d samples were taken, want %d", p.name, len(all), soakLeast))
			continue
		}
		third := len(all) / 3
		warm, end := typical(all[third:third+max(3, third/2)]), typical(all[len(all)-max(3, third/2):])
		fmt.Fprint(w, p.name)
		for _, f := range figures {
			if f.name == goroutines && p.http() == "" { // it does not tell
				fmt.Fprint(w, "\t")
				continue
			}
			before, now := f.of(warm), f.of(end)
			fmt.Fprintf(w, "\t%.0f, %.0f", before, now)
			if says := f.judge(before, now, length); says != "" {
				wrong = append(wrong, p.name+": "+says)
			}
		}
		fmt.Fprintf(w, "\t%.0f\t\n", curve(all))
	}
	w.Flush()
	return wrong
}

// judge says what is wrong with a figure, if anything.
func (f figure) judge(before, now float64, length time.Duration) string {
	switch {
	case before < 0 || now < 0:
		if measurable() {
			return f.name + " can't be read"
		}
	case length >= f.from && now > before*(1+soakGrowth)+f.least:
		return fmt.Sprintf("%s grew from %.0f to %.0f", f.name, before, now)
	}
	return ""
}

// held tells whether the process is to be down.
func (p *process) held() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds > 0
}

// curve is the memory at eight times.
func curve(all []sample) (mb []float64) {
	for i := range 8 {
		mb = append(mb, all[i*(len(all)-1)/7].memory)
	}
	return mb
}

// typical is the median of the memory, and the least of what is open.
func typical(all []sample) sample {
	known := func(value func(sample) float64) []float64 {
		var values []float64
		for _, s := range all {
			if v := value(s); v >= 0 {
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			return []float64{-1}
		}
		slices.Sort(values)
		return values
	}
	memory := known(func(s sample) float64 { return s.memory })
	return sample{
		memory:     memory[len(memory)/2],
		files:      known(func(s sample) float64 { return s.files })[0],
		goroutines: known(func(s sample) float64 { return s.goroutines })[0],
	}
}

// rollup is the file that tells what memory a process takes.
const rollup = "smaps_rollup"

// measurable tells whether the system shows what processes take.
func measurable() bool {
	_, err := os.Stat("/proc/self/" + rollup)
	return err == nil
}

// measure adds up what a process and all that it has started take. The server
// of Postgres is a child, and forks. What has ended meanwhile takes nothing.
func measure(pid int) sample {
	unknown := sample{memory: -1, files: -1, goroutines: -1}
	tree, err := descendants(pid)
	if err != nil {
		return unknown
	}
	sum, found := sample{goroutines: -1}, 0
	most := map[string]int{} // by file, how often the process that has it open most often has it open
	for _, pid := range append([]int{pid}, tree...) {
		memory, err := proportional(pid)
		var open map[string]int
		if err == nil {
			open, err = openFiles(pid)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
			continue
		case err != nil:
			return unknown
		}
		sum.memory += memory
		for file, n := range open {
			most[file] = max(most[file], n)
		}
		found++
	}
	if found == 0 {
		return unknown
	}
	for _, n := range most {
		sum.files += float64(n)
	}
	return sum
}

// openFiles counts what a process has open, by file. A file that several
// processes of a part have open counts once: each server process of Postgres
// keeps the tables open that it has read, up to a thousand of them, which is a
// cache. A connection is a file that no other process has.
func openFiles(pid int) (map[string]int, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	open := map[string]int{}
	for _, e := range entries {
		file, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		open[file]++
	}
	return open, nil
}

// proportional is the memory of a process, in MB: what it shares with others is
// divided among them.
func proportional(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), rollup))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "Pss:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kb * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("%s of process %d tells no Pss", rollup, pid)
}

// gauge reads a metric of a role; -1 when it does not answer.
func gauge(ctx context.Context, addr, name string) float64 {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := fetchOnce(ctx, http.MethodGet, "http://"+addr+"/metrics", "")
	if err != nil {
		return -1
	}
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				return n
			}
		}
	}
	return -1
}
