package uploads

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-io/millrace/ingest/webhooks"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// sendPaced sends items to webhooks until the test ends, so many at a time to a host and with a pacing, and returns its metrics.
func (s *shop) sendPaced(perHost int, pacing item.Pacing) *prometheus.Registry {
	s.t.Helper()
	store, err := webhooks.NewStore(s.pool)
	if err != nil {
		s.t.Fatal(err)
	}
	own, err := userqueue.NewPaced(s.own.Queues(), pacing)
	if err != nil {
		s.t.Fatal(err)
	}
	hands, err := handout.New(s.nc, own.Queues(), stream.WorkConfig{})
	if err != nil {
		s.t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	r, err := webhooks.NewRunner(webhooks.RunnerConfig{PerHost: perHost, Grace: 200 * time.Millisecond}, webhooks.Deps{
		Sender: webhooks.NewSender(here, nil), Store: store, Own: own, Hands: hands, Registry: registry, Log: embeddedtest.Log(s.t),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	embeddedtest.Go(s.t, r.Run)
	return registry
}

// crowd counts requests that are under way, by path and all together.
type crowd struct {
	mu      sync.Mutex
	now     map[string]int
	most    map[string]int
	full    chan struct{} // is closed when there were as many as there may be
	closing sync.Once
	limit   int // of all
}

const everybody = "all"

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.add(r.URL.Path, 1)
	defer c.add(r.URL.Path, -1)
	// Requests stay until there are as many as there may be, and for a while in which more would come.
	select {
	case <-c.full:
		time.Sleep(20 * time.Millisecond)
	case <-time.After(200 * time.Millisecond):
	}
	_, _ = w.Write([]byte("{}"))
}

func (c *crowd) add(path string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range []string{path, everybody} {
		c.now[of] += n
		c.most[of] = max(c.most[of], c.now[of])
	}
	if c.now[everybody] >= c.limit {
		c.closing.Do(func() { time.AfterFunc(300*time.Millisecond, func() { close(c.full) }) })
	}
}

// TestWebhookConcurrency: two queues whose webhooks lead to one host have as many requests under way as each of them and
// the host may have, and no more (4 and 5 of package webhook).
func TestWebhookConcurrency(t *testing.T) {
	t.Parallel()
	slowtest.Mark(t)
	s := openHooked(t, auth.Config{})
	s.run(schema.Bounds{})
	embeddedtest.Go(t, s.feed.Run)
	const each, perHost = 3, 4
	c := &crowd{now: map[string]int{}, most: map[string]int{}, full: make(chan struct{}), limit: perHost}
	web := httptest.NewServer(c)
	defer web.Close()
	if status, text := s.send(http.MethodPost, "/api/v1/queues", "application/json", strings.NewReader(`{"name":"second"}`)); status != 201 {
		t.Fatal(status, text)
	}
	file := []byte("no\n" + strings.Repeat("1\n", 60))
	for _, queue := range []string{"enrich", "second"} {
		body := fmt.Sprintf(`{"url":"%s/%s","concurrency":%d}`, web.URL, queue, each)
		if status, text := s.send(http.MethodPut, "/api/v1/queues/"+queue+"/webhook", "application/json", strings.NewReader(body)); status != 200 {
			t.Fatal(status, text)
		}
	}
	a, b := s.made("a.csv", file, "processor", "enrich"), s.made("b.csv", file, "processor", "second")
	s.sendPaced(perHost, item.Pacing{})
	for _, id := range []uploads.Job{s.until(a, "done", ended), s.until(b, "done", ended)} {
		if id.Counts[schema.StatusDone] != 60 {
			t.Errorf("%s, %v", id.State, id.Counts)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most[everybody] != perHost || c.most["/enrich"] > each || c.most["/second"] > each {
		t.Errorf("requests at a time: %v, want %d of all, and %d of each at most", c.most, perHost, each)
	}
}

// strict is a host that takes one request at a time, and wants the pauses that it has asked for.
type strict struct {
	t      *testing.T
	plans  [][]string // by row
	pacing item.Pacing

	mu      sync.Mutex
	running int
	delay   time.Duration // between two requests
	next    time.Time     // when the next request may come
	why     string
	calls   []string
}

func (h *strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	came := time.Now()
	var c struct {
		Attempt int
		Payload struct {
			RowNo int `json:"row_no"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		h.t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running++; h.running > 1 {
		h.t.Errorf("%d requests at a time", h.running)
	}
	if early := h.next.Sub(came); early > 0 {
		h.t.Errorf("request %d comes %s before it may: %s; before it there were %v", len(h.calls)+1, early, h.why, h.calls)
	}
	p := h.plans[c.Payload.RowNo]
	step := p[min(c.Attempt, len(p))-1]
	h.calls = append(h.calls, step)
	h.answer(w, step)
	h.running--
}

// answer answers, and notes when the next request may come: pauses double while errors go on, and halve when they end.
func (h *strict) answer(w http.ResponseWriter, step string) {
	var status, after int
	_, _ = fmt.Sscanf(step, "%d %d", &status, &after)
	now := time.Now()
	switch {
	case strings.HasSuffix(step, "by date"):
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		w.Header().Set("Retry-After", now.UTC().Add(time.Duration(after)*time.Second).Format(http.TimeFormat))
	case after > 0:
		w.Header().Set("Retry-After", fmt.Sprint(after))
	}
	if status == http.StatusOK {
		if h.delay /= 2; h.delay < h.pacing.Delay {
			h.delay = 0
		}
		_, _ = w.Write([]byte("{}"))
		return
	}
	h.delay = min(max(2*h.delay, h.pacing.Delay), h.pacing.MostDelay)
	wait := max(h.delay, time.Duration(after)*time.Second)
	h.next, h.why = now.Add(wait), fmt.Sprintf("%s has it wait for %s", step, wait)
	w.WriteHeader(status)
}

// TestWebhookPauses: a host that answers 429 and 5xx is sent nothing before the pause is over, whichever way Retry-After says it,
// and pauses between requests double while errors go on. Rows are tried again, and one that goes on failing is an ERROR
// with the answer (5 of package webhook).
func TestWebhookPauses(t *testing.T) {
	t.Parallel()
	slowtest.Mark(t)
	s := openHooked(t, auth.Config{})
	s.run(schema.Bounds{})
	embeddedtest.Go(t, s.feed.Run)
	pacing := item.Pacing{
		Throttled: 50 * time.Millisecond, Server: 50 * time.Millisecond, Network: 50 * time.Millisecond,
		Delay: 50 * time.Millisecond, MostDelay: 500 * time.Millisecond,
	}
	h := &strict{t: t, pacing: pacing, plans: [][]string{
		nil,
		{"200"},
		{"429 1", "200"},
		{"200"},
		{"503", "502", "200"},
		{"500"},
		{"503 1", "200"},
		{"200"},
		{"429 2 by date", "200"},
		{"504", "200"},
		{"200"},
		{"429", "429", "200"},
	}}
	web := httptest.NewServer(h)
	defer web.Close()
	s.hook(web.URL, 10, 8)
	var file bytes.Buffer
	file.WriteString("no\n")
	for no := range h.plans[1:] {
		fmt.Fprintln(&file, no+1)
	}
	id := s.made("x.csv", file.Bytes(), "processor", "enrich")
	registry := s.sendPaced(1, pacing)
	j := s.until(id, "done", ended)
	all, _, err := s.store.Items(t.Context(), j, uploads.ItemsQuery{
		Statuses: []schema.Status{schema.StatusDone, schema.Error}, ByRow: true, Limit: 100,
	})
	if err != nil || len(all) != len(h.plans)-1 {
		t.Fatalf("%d items, %v", len(all), err)
	}
	want := map[string]float64{}
	for _, it := range all {
		p := h.plans[it.Row]
		if last := p[len(p)-1]; last != "200" {
			p = slices.Repeat(p, 5) // attempts
			if it.Status != schema.Error || it.Error == nil || *it.Error != "the webhook has answered "+last {
				t.Errorf("row %d is %s with %v, want ERROR with the answer %s", it.Row, it.Status, it.Error, last)
			}
		} else if it.Status != schema.StatusDone {
			t.Errorf("row %d of %q is %s", it.Row, p, it.Status)
		}
		if int(it.Attempts) != len(p) {
			t.Errorf("row %d of %q has %d attempts", it.Row, p, it.Attempts)
		}
		for _, step := range p {
			want[map[byte]string{'2': "done", '4': "throttled", '5': "server"}[step[0]]]++
		}
	}
	var lines strings.Builder
	lines.WriteString("# HELP millrace_webhook_requests_total Requests to webhooks, by queue and by what the answer means.\n" +
		"# TYPE millrace_webhook_requests_total counter\n")
	for _, answer := range []string{"done", "server", "throttled"} {
		fmt.Fprintf(&lines, "millrace_webhook_requests_total{answer=%q,queue=\"enrich\"} %g\n", answer, want[answer])
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(lines.String())); err != nil {
		t.Error(err)
	}
}
