package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// TestEnginesHang: embedded engines that are stopped are named by /ready, /health and the log, with their process, also
// one whose connections go on and that takes no new ones. They are not restarted, and go on when they may.
func TestEnginesHang(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	text, err := os.ReadFile(filepath.Join(s.data, "postgres", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	postmaster, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	s.outage.Store(true)
	if err := syscall.Kill(postmaster, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.signalClickHouse(syscall.SIGSTOP)
	down := func(name string) bool {
		_, r := s.ready()
		for _, c := range r.Checks {
			if c.Name == name {
				return c.Status == "down" && strings.Contains(c.Error, "kill -CONT") && !c.Needed
			}
		}
		t.Fatalf("there is no check %q: %+v", name, r)
		return false
	}
	for _, name := range []string{"clickhouse engine", "postgres engine"} {
		poll(t, waitLimit, "/ready to say that it hangs: "+name, func() bool { return down(name) })
	}
	poll(t, waitLimit, "/health to say that they hang", func() bool {
		_, body := answerOf(http.Get(s.url("/health")))
		return strings.Contains(string(body), "engine postgres does not answer") &&
			strings.Contains(string(body), "engine clickhouse does not answer")
	})
	if out := s.log.String(); strings.Contains(out, "is started again") {
		t.Error("an engine that hangs is started again")
	}
	_, status := s.console(t, "status")
	if !strings.Contains(status, "postgres engine") || !strings.Contains(status, "clickhouse engine") {
		t.Errorf("status says\n%s", status)
	}
	s.signalClickHouse(syscall.SIGCONT)
	if err := syscall.Kill(postmaster, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	poll(t, waitLimit, "everything to be up", func() bool {
		_, r := s.ready()
		for _, c := range r.Checks {
			if c.Status != "up" {
				return false
			}
		}
		return true
	})
	s.outage.Store(false)
	poll(t, waitLimit, "/health to be quiet", func() bool {
		_, body := answerOf(http.Get(s.url("/health")))
		return !strings.Contains(string(body), "does not answer")
	})
}
