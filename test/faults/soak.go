package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"
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
)

// sample is what a part takes at a moment; a negative number is not known.
type sample struct {
	resident   float64 // MB
	files      float64 // open files, connections among them
	goroutines float64
}

// soak takes samples of all parts, and keeps visitors coming.
type soak struct {
	cluster *cluster
	taken   map[string][]sample // by part
}

// run takes ten samples a minute, or twenty in all, until ctx ends.
func (s *soak) run(ctx context.Context, length time.Duration) {
	visits, leave := errgroup.WithContext(ctx)
	for range 4 {
		visits.Go(func() error { s.visit(leave); return nil })
	}
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
		if conn, resp, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+s.cluster.queryAddr+"/api/v1/live", nil); err == nil {
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

func (s *soak) take(ctx context.Context) {
	for _, p := range s.cluster.all() {
		pid := p.pid()
		if pid == 0 {
			continue
		}
		now := sample{resident: resident(pid), files: files(pid), goroutines: -1}
		if addr := p.http(); addr != "" {
			now.goroutines = gauge(ctx, addr, "go_goroutines")
		}
		if s.taken == nil {
			s.taken = map[string][]sample{}
		}
		s.taken[p.name] = append(s.taken[p.name], now)
	}
}

// judge prints what was measured, and returns what has grown.
func (s *soak) judge(out io.Writer, length time.Duration) (grown []string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "part\tresident warm, end (MB)\topen files\tgoroutines\tresident over time\t")
	for _, p := range s.cluster.all() {
		all := s.taken[p.name]
		if len(all) < 9 {
			continue
		}
		third := len(all) / 3
		warm, end := typical(all[third:third+max(3, third/2)]), typical(all[len(all)-max(3, third/2):])
		fmt.Fprintf(w, "%s\t%.0f, %.0f\t%.0f, %.0f\t%.0f, %.0f\t%.0f\t\n", p.name,
			warm.resident, end.resident, warm.files, end.files, warm.goroutines, end.goroutines, curve(all))
		for what, values := range map[string][3]float64{
			"resident memory in MB": {warm.resident, end.resident, 5}, "open files": {warm.files, end.files, soakOpen}, "goroutines": {warm.goroutines, end.goroutines, soakOpen},
		} {
			judged := what != "resident memory in MB" || length >= soakLong
			if before, now, least := values[0], values[1], values[2]; judged && now > before*(1+soakGrowth)+least {
				grown = append(grown, fmt.Sprintf("%s: %s grew from %.0f to %.0f", p.name, what, before, now))
			}
		}
	}
	w.Flush()
	return grown
}

// curve is the resident memory at eight times.
func curve(all []sample) (mb []float64) {
	for i := range 8 {
		mb = append(mb, all[i*(len(all)-1)/7].resident)
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
	memory := known(func(s sample) float64 { return s.resident })
	return sample{
		resident:   memory[len(memory)/2],
		files:      known(func(s sample) float64 { return s.files })[0],
		goroutines: known(func(s sample) float64 { return s.goroutines })[0],
	}
}

// resident is the resident memory of a process, in MB; -1
// where there is no /proc.
func resident(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return -1
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return -1
	}
	return pages * float64(os.Getpagesize()) / 1e6
}

func files(pid int) float64 {
	open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	if err != nil {
		return -1
	}
	return float64(len(open))
}

// gauge reads a metric of a role; -1 when it does not answer.
func gauge(ctx context.Context, addr, name string) float64 {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
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
