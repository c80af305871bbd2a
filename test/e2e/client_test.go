package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// service is a run of the client's example: it emits an event for each URL
// that it reads.
type service struct {
	*process
	in   *os.File
	http string
}

func startService(t *testing.T, program string, env ...string) *service {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &service{in: w, http: freePort(t)}
	s.process = launchProgram(t, program, append(env, "HTTP_ADDR="+s.http, "PIPELINE_CIRCUIT_OPEN_FOR=1s"), r)
	r.Close() // the service has its own
	t.Cleanup(func() { w.Close() })
	return s
}

// crawl has the service emit the articles of these numbers.
func (s *service) crawl(t *testing.T, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if _, err := fmt.Fprintf(s.in, "https://example.com/crawled-%d\n", n); err != nil {
			t.Fatal(err)
		}
	}
}

// health is the service's own, which the description of Millrace's API says nothing about.
func (s *service) health() string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + s.http + "/health")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

// await waits until the service's /health holds a text.
func (s *service) await(t *testing.T, text string) {
	t.Helper()
	poll(t, waitLimit, "/health of the service to hold "+text, func() bool {
		return strings.Contains(s.health(), text)
	})
}

// TestClient holds the client's promise: Millrace is stopped and started under
// a service, killed, and so is the service, and nothing is lost or doubled.
func TestClient(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "service")
	if out, err := exec.Command("go", "build", "-o", program, "../../client/example").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := up(t, "MILLRACE_INGEST_RATE=0")
	s.serveClients(t, program)
}

// serveClients has services of each program emit over NATS and over HTTP, while Millrace and they are stopped and killed.
func (s *server) serveClients(t *testing.T, programs ...string) {
	t.Helper()
	var start []func() *service // over NATS and over HTTP
	for _, program := range programs {
		for _, address := range []string{"MILLRACE_NATS_URL=" + s.natsURL(), "PIPELINE_SERVICE_URL=" + s.url("")} {
			spool := "PIPELINE_SPOOL=" + t.TempDir()
			start = append(start, func() *service { return startService(t, program, address, spool) })
		}
	}
	var one, two []*service
	each := func(services []*service, do func(i int, s *service)) {
		for i, s := range services {
			do(i*10_000, s)
		}
	}
	for _, begin := range start {
		one = append(one, begin())
	}
	each(one, func(i int, s *service) { s.crawl(t, i, i+500) })
	// A service that has yet to read its lines has nothing waiting, either.
	poll(t, waitLimit, "the first events of all to be counted", func() bool {
		return get[funnel](s, "/funnel", "period=24h").Stages[0].Events == 500*len(start)
	})
	each(one, func(_ int, s *service) { s.await(t, `"waiting":0`) })
	s.stop()
	each(one, func(i int, s *service) { s.crawl(t, i+500, i+1500) })
	each(one, func(_ int, s *service) { s.await(t, `"circuit":"open"`); s.await(t, `"waiting":1000`) })
	each(one, func(_ int, s *service) { s.kill() }) // their spools outlast them
	s.restart()
	for _, begin := range start {
		two = append(two, begin())
	}
	each(two, func(i int, s *service) { s.crawl(t, i+1500, i+1800) })
	s.killParent()
	each(two, func(i int, s *service) { s.crawl(t, i+1800, i+2000) })
	s.restart()
	each(two, func(_ int, s *service) {
		s.await(t, `"waiting":0`)
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if status := s.wait(t, time.Minute); status != 0 {
			t.Errorf("exit status %d:\n%s", status, s.log)
		}
	})
	s.caughtUp()
	if got := get[funnel](s, "/funnel", "period=24h").Stages[0]; got.Events != 2000*len(start) || got.Uniques != got.Events {
		t.Errorf("%+v, want %d events of as many articles", got, 2000*len(start))
		each(two, func(_ int, s *service) { t.Log(s.log) })
	}
}
