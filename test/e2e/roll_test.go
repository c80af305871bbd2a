package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestRoll: while processes of all roles are replaced one after the other, behind a proxy that
// asks /ready, no request is refused or cut off, and each event counts once.
func TestRoll(t *testing.T) {
	t.Parallel()
	s := up(t)
	p := &proxy{t: t, s: s}
	site := httptest.NewServer(p)
	defer site.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go p.poll(ctx)
	old := []*backend{p.start(), p.start()}

	var load sync.WaitGroup
	loading, end := context.WithCancel(ctx)
	defer end()
	var published, read atomic.Int64
	for worker := range 4 {
		load.Go(func() {
			for i := 0; loading.Err() == nil; i++ {
				event := valid(map[string]any{
					"source_name": "rolled", "article_url": fmt.Sprintf("https://example.com/rolled/%d/%d", worker, i),
				})
				send := func() (int, []byte) {
					return answerOf(http.Post(site.URL+api+"/events", "application/json", strings.NewReader(event)))
				}
				// one that was stored though its answer was lost is a duplicate
				if status, body := s.patient(t, "an event", send); status != http.StatusCreated && status != http.StatusOK {
					t.Errorf("an event: status %d: %.200s", status, body)
					return
				}
				published.Add(1)
				if status, body := answerOf(http.Get(site.URL + api + "/funnel?source=rolled")); status == http.StatusOK {
					read.Add(1)
				} else if s.count(status == http.StatusServiceUnavailable); status != http.StatusServiceUnavailable {
					t.Errorf("a read: status %d: %.200s", status, body)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	for _, b := range old {
		p.start()
		p.retire(b)
	}
	end()
	load.Wait()
	t.Logf("%d events published and %d funnels read", published.Load(), read.Load())
	if n := p.failed.Load(); n > 0 || published.Load() < 50 {
		t.Errorf("%d requests were refused or cut off, of those for %d events", n, published.Load())
	}
	poll(t, waitLimit, "all events to be counted", func() bool {
		status, body := s.with(t, "", http.MethodGet, "/funnel?period=24h&source=rolled", "")
		var f funnel
		return status == http.StatusOK && json.Unmarshal(body, &f) == nil && f.Stages[0].Events == int(published.Load())
	})
}

// TestAwaitsMigration: processes that are told to wait for the tables make none themselves, and
// begin once "millrace migrate" has made them.
func TestAwaitsMigration(t *testing.T) {
	t.Parallel()
	s := up(t)
	if _, text := s.asDefault("CREATE DATABASE fresh"); text != "" {
		t.Fatal(text)
	}
	servers := []string{
		"MILLRACE_NATS_URL=" + s.natsURL(), "MILLRACE_DATA=" + s.data,
		"MILLRACE_CLICKHOUSE_DSN=" + s.clickhouseDSN("fresh"),
		"MILLRACE_POSTGRES_DSN=" + s.postgresDSN(),
	}
	addr := freePort(t)
	waits := launch(t, append(servers, "MILLRACE_HTTP_ADDR="+addr, "MILLRACE_AWAIT_MIGRATION=true"), nil,
		"serve", "--role=ingest,query,scheduler")
	poll(t, waitLimit, "a process to wait for the tables", func() bool {
		return strings.Contains(waits.log.String(), "waiting for the tables in ClickHouse")
	})
	count := "SELECT count() FROM system.tables WHERE database = 'fresh' AND name = 'events'"
	if _, text := s.asDefault(count); text != "0" {
		t.Errorf("it has made tables: %q", text)
	}
	if migrate := launch(t, servers, nil, "migrate"); migrate.wait(t, startLimit) != 0 {
		t.Fatalf("migrate:\n%s", migrate.log)
	}
	poll(t, startLimit, "a process to be ready once the tables are there", func() bool {
		status, _ := answerOf(http.Get("http://" + addr + "/ready"))
		return status == http.StatusOK
	})
}

// clickhouseDSN is where Millrace's own login finds a database.
func (s *server) clickhouseDSN(database string) string {
	return "clickhouse://default:" + s.secret("clickhouse-password") + "@" + s.ports.ClickHouse + "/" + database
}

// answerOf reads an answer; status 0: there was none.
func answerOf(resp *http.Response, err error) (status int, body []byte) {
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return resp.StatusCode, body
}

// proxy sends requests to processes that say that they are ready, in turns, and never twice.
type proxy struct {
	t      *testing.T
	s      *server
	turn   atomic.Uint64
	failed atomic.Int64

	mu   sync.Mutex
	list []*backend
}

type backend struct {
	*process
	addr  string
	ready bool // guarded by the proxy's lock
	to    *httputil.ReverseProxy
}

// rollDrain is how long a process answers after it was told to end: long enough for the proxy
// to ask, also on a machine that is busy.
const rollDrain = 10 * time.Second

// start starts a process with all roles, and returns when the proxy sends it requests.
func (p *proxy) start() *backend {
	p.t.Helper()
	b := p.launch("--role=ingest,projector,query,scheduler")
	p.mu.Lock()
	p.list = append(p.list, b)
	p.mu.Unlock()
	poll(p.t, startLimit, "a process to be ready", func() bool {
		if !b.running() {
			p.t.Fatalf("it has ended:\n%s", tail(b.log.String(), 40))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return b.ready
	})
	return b
}

// launch starts a process with some roles, that the proxy does not know.
func (p *proxy) launch(roles string) *backend {
	p.t.Helper()
	addr := freePort(p.t)
	env := append(p.s.env, "MILLRACE_NATS_URL="+p.s.natsURL(), "MILLRACE_HTTP_ADDR="+addr,
		"MILLRACE_CLICKHOUSE_DSN="+p.s.clickhouseDSN("millrace"), "MILLRACE_POSTGRES_DSN="+p.s.postgresDSN(),
		"MILLRACE_DRAIN="+rollDrain.String())
	data := dataFolder(p.t)
	keys := filepath.Join(data, "nats", "keys")
	if err := os.CopyFS(keys, os.DirFS(filepath.Join(p.s.data, "nats", "keys"))); err != nil {
		p.t.Fatal(err)
	}
	b := &backend{
		process: launch(p.t, env, nil, "serve", roles, "--data", data),
		addr:    addr, to: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr}),
	}
	b.to.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		p.failed.Add(1)
		p.t.Errorf("%s %s to %s: %v", r.Method, r.URL.Path, addr, err)
		w.WriteHeader(http.StatusBadGateway)
	}
	return b
}

// retire ends a process as an orchestrator does.
func (p *proxy) retire(b *backend) {
	p.t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if status := b.wait(p.t, waitLimit); status != 0 {
		p.t.Errorf("exit status %d:\n%s", status, tail(b.log.String(), 40))
	}
}

// poll asks the processes whether they are ready, until ctx ends.
func (p *proxy) poll(ctx context.Context) {
	client := &http.Client{Timeout: 5 * time.Second}
	for ctx.Err() == nil {
		p.mu.Lock()
		list := p.list
		p.mu.Unlock()
		for _, b := range list {
			resp, err := client.Get("http://" + b.addr + "/ready")
			if err == nil {
				_ = resp.Body.Close()
			}
			p.mu.Lock()
			b.ready = err == nil && resp.StatusCode == http.StatusOK
			p.mu.Unlock()
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	var ready []*backend
	for _, b := range p.list {
		if b.ready {
			ready = append(ready, b)
		}
	}
	p.mu.Unlock()
	if len(ready) == 0 {
		http.Error(w, "no process is ready", http.StatusServiceUnavailable)
		return
	}
	ready[p.turn.Add(1)%uint64(len(ready))].to.ServeHTTP(w, r)
}
