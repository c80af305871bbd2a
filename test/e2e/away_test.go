package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// signalClickHouse sends a signal to the server's ClickHouse.
func (s *server) signalClickHouse(signal syscall.Signal) {
	s.t.Helper()
	for _, p := range descendants(s.cmd.Process.Pid) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)) // it may have ended
		if !strings.Contains(string(command), "\x00clickhouse\x00") {
			continue
		}
		s.outage.Store(true)
		if err := syscall.Kill(p.pid, signal); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.t.Skip("the processes of this system are not to be seen")
}

type readiness struct {
	Status string
	Checks []struct {
		Name, Status, Error string
		Needed              bool
		Behind              uint64
	}
}

func (s *server) ready() (status int, r readiness) {
	s.t.Helper()
	resp, err := http.Get(s.url("/ready"))
	status, _, body := s.read(resp, err)
	if err := json.Unmarshal(body, &r); err != nil {
		s.t.Fatal(err)
	}
	return status, r
}

// TestClickHouseAway holds the promise that while ClickHouse is away publishing
// goes on, nothing becomes a dead letter for it, /ready says what is behind and
// by how much, and leaves the server where events come in; that all is counted
// afterwards; and that a ClickHouse that is killed comes back by itself. The
// projector's own tests hold that its memory is bounded meanwhile.
func TestClickHouseAway(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	c := recent(seed(t), 5000)
	s.signalClickHouse(syscall.SIGSTOP)
	if e := s.emit(c.lines()); e.rejected > 0 || e.accepted == 0 {
		t.Errorf("emitted %+v", e)
	}
	poll(t, waitLimit, "/ready to say that ClickHouse is down, and how far the view is behind", func() bool {
		status, r := s.ready()
		down, behind := false, uint64(0)
		for _, check := range r.Checks {
			down = down || check.Name == "clickhouse" && check.Status == "down" && check.Error != "" && !check.Needed
			behind = max(behind, check.Behind)
		}
		return status == http.StatusOK && r.Status == "ready" && down && behind > 1000
	})
	s.signalClickHouse(syscall.SIGCONT)
	s.signalClickHouse(syscall.SIGKILL)
	poll(t, waitLimit, "another ClickHouse", func() bool {
		return strings.Contains(s.log.String(), "is started again")
	})
	poll(t, waitLimit, "everything to be up", func() bool {
		_, r := s.ready()
		for _, check := range r.Checks {
			if check.Status != "up" {
				return false
			}
		}
		return true
	})
	s.outage.Store(false)
	mustMatch(t, s, c)
	if letters := get[struct{ Items []any }](s, "/dlq", ""); len(letters.Items) > 0 {
		t.Errorf("%d dead letters", len(letters.Items))
	}
}

// TestStartsWithoutClickHouse: a projector and a query service start while ClickHouse is away. They tell that they wait
// for it, and work once it is there. A process that ClickHouse refuses ends and tells why.
func TestStartsWithoutClickHouse(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	addr, nobody := freePort(t), freePort(t)
	dsn := "MILLRACE_CLICKHOUSE_DSN=" + strings.Replace(s.clickhouseDSN("millrace"), s.ports.ClickHouse, nobody, 1)
	env := []string{
		"MILLRACE_NATS_URL=" + s.natsURL(), "MILLRACE_NATS_NKEY=" + filepath.Join(s.data, "nats", "keys", "millrace.nk"),
		"MILLRACE_DATA=" + t.TempDir(), "MILLRACE_HTTP_ADDR=" + addr,
		"MILLRACE_POSTGRES_DSN=" + s.postgresDSN(),
	}
	launch(t, append(env, dsn), nil, "serve", "--role=projector,query")
	poll(t, startLimit, "both to wait for ClickHouse", func() bool {
		status, _ := answerOf(http.Get("http://" + addr + "/ready"))
		_, health := answerOf(http.Get("http://" + addr + "/health"))
		return status == http.StatusServiceUnavailable &&
			strings.Contains(string(health), `{"system":"pipeline","reason":"waits for its tables in ClickHouse"}`)
	})
	proxies := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	clickhouse := toxiproxy.NewProxy(proxies, "clickhouse", nobody, s.ports.ClickHouse)
	if err := clickhouse.Start(); err != nil {
		t.Fatal(err)
	}
	defer clickhouse.Stop()
	poll(t, startLimit, "both to work", func() bool {
		status, _ := answerOf(http.Get("http://" + addr + "/ready"))
		_, health := answerOf(http.Get("http://" + addr + "/health"))
		return status == http.StatusOK && !strings.Contains(string(health), "ClickHouse")
	})
	wrong := strings.Replace(s.clickhouseDSN("millrace"), "@", "x@", 1)
	refused := launch(t, append(env, "MILLRACE_CLICKHOUSE_DSN="+wrong), nil, "serve", "--role=query")
	if status := refused.wait(t, startLimit); status != 1 || !strings.Contains(refused.log.String(), "Authentication failed") {
		t.Errorf("with a wrong password: status %d:\n%s", status, refused.log)
	}
}

// TestHurried holds the promise that a second SIGTERM ends what the first one
// waits for, with exit status 1, and that nothing depends on either.
func TestHurried(t *testing.T) {
	t.Parallel()
	s := up(t)
	c := recent(seed(t), 500)
	s.signalClickHouse(syscall.SIGSTOP)
	s.emit(c.lines())
	for range 2 {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		poll(t, waitLimit, "the signal to be noticed", func() bool {
			return strings.Contains(s.log.String(), "stopping")
		})
	}
	if status := s.wait(t, waitLimit); status != 1 || !strings.Contains(s.log.String(), "stopped in a hurry") {
		t.Errorf("exit status %d:\n%s", status, tail(s.log.String(), 20))
	}
	s.restart()
	mustMatch(t, s, c)
}

// TestClickHouseHangs holds the promise that the live funnel goes on from memory while
// ClickHouse hangs, also for windows that nobody has asked for, that /metrics is answered,
// and that the server ends by the first SIGTERM.
func TestClickHouseHangs(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	c := recent(seed(t), 500)
	s.emit(c.lines())
	mustMatch(t, s, c)
	s.signalClickHouse(syscall.SIGSTOP)
	for _, period := range []string{"7d", "30d", "24h", "7d"} {
		status, _, body := s.fetch("/funnel?period=" + period)
		var got funnel
		if err := json.Unmarshal(body, &got); err != nil || status != http.StatusOK {
			t.Fatalf("%s: status %d: %s", period, status, body)
		}
		if want := c.recount(all); !slices.Equal(got.Stages, want) {
			t.Errorf("%s: %v, want %v", period, got.Stages, want)
		}
	}
	resp, err := http.Get(s.url("/metrics"))
	if status, _, body := s.read(resp, err); status != http.StatusOK ||
		!strings.Contains(string(body), "millrace_mirror_folded_seq") {
		t.Errorf("/metrics: status %d: %.300s", status, body)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := s.wait(t, waitLimit); status != 0 {
		t.Errorf("exit status %d:\n%s", status, tail(s.log.String(), 20))
	}
	s.restart()
	mustMatch(t, s, c)
}
