package e2e

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/embedded/engines"
	"github.com/millrace-io/millrace/internal/embedded/postgres"
)

// servers are a NATS server as anybody runs it, ClickHouse and Postgres, none of which belongs to a process of Millrace,
// and the processes that work on them.
type servers struct {
	*server
	roles []*process
	ends  []func()
}

// onServers starts empty servers.
func onServers(t *testing.T) *servers {
	t.Helper()
	s := &servers{server: &server{t: t, ports: freePorts(t), data: dataFolder(t), patience: &patience{}}}
	t.Cleanup(func() {
		s.check(t)
		for _, p := range s.roles {
			if t.Failed() {
				t.Logf("log of %s:\n%s", p.cmd, tail(p.log.String(), 40))
			}
		}
	})
	s.startNATS()
	s.startPostgres()
	s.startClickHouse()
	return s
}

func (s *servers) startNATS() {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.ports.NATS)
	if err != nil {
		s.t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		s.t.Fatal(err)
	}
	server, err := natsserver.NewServer(&natsserver.Options{
		Host: host, Port: number, JetStream: true, StoreDir: filepath.Join(s.data, "stock-nats"), NoSigs: true, NoLog: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	server.Start()
	end := func() { server.Shutdown(); server.WaitForShutdown() }
	s.t.Cleanup(end)
	s.ends = append(s.ends, end)
	if !server.ReadyForConnections(startLimit) {
		s.t.Fatal("NATS does not start")
	}
}

func (s *servers) startPostgres() {
	s.t.Helper()
	engine, err := engines.Postgres()
	if err != nil {
		s.t.Fatal(err)
	}
	server, err := postgres.New(postgres.Config{
		Engine: engine, Dir: filepath.Join(s.data, "postgres"), Listen: s.ports.Postgres,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	s.ends = append(s.ends, embeddedtest.Go(s.t, server.Run))
	select {
	case <-server.Ready():
	case <-time.After(startLimit):
		s.t.Fatal("Postgres does not start")
	}
}

func (s *servers) startClickHouse() {
	s.t.Helper()
	p := launch(s.t, append(s.ports.env(), "MILLRACE_DATA="+s.data), nil, "clickhouse")
	s.ends = append(s.ends, p.kill)
	poll(s.t, startLimit, "ClickHouse to answer", func() bool {
		if !p.running() {
			s.t.Fatalf("ClickHouse has ended:\n%s", p.log)
		}
		resp, err := http.Get("http://" + s.ports.ClickHouseHTTP + "/ping")
		status, _ := answerOf(resp, err)
		return status == http.StatusOK
	})
}

// env names the servers.
func (s *servers) env() []string {
	return []string{
		"MILLRACE_NATS_URL=" + s.natsURL(), "MILLRACE_CLICKHOUSE_DSN=" + s.clickhouseDSN("millrace"),
		"MILLRACE_POSTGRES_DSN=" + s.postgresDSN(),
	}
}

// serve starts the processes: one that people and services ask, and two projectors. It returns when all are ready.
func (s *servers) serve() {
	s.t.Helper()
	start := func(addr string, roles string) *process {
		p := launch(s.t, append(s.env(), "MILLRACE_HTTP_ADDR="+addr, "MILLRACE_DATA="+dataFolder(s.t)), nil,
			"serve", "--role="+roles)
		s.roles = append(s.roles, p)
		poll(s.t, startLimit, roles+" to be ready", func() bool {
			if !p.running() {
				s.t.Fatalf("%s has ended:\n%s", roles, p.log)
			}
			status, _ := answerOf(http.Get("http://" + addr + "/ready"))
			return status == http.StatusOK
		})
		return p
	}
	s.process = start(s.ports.HTTP, "ingest,query,scheduler")
	for range 2 {
		start(freePort(s.t), "projector")
	}
}

// stop ends the processes by SIGTERM.
func (s *servers) stop() {
	s.t.Helper()
	for _, p := range s.roles {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, p := range s.roles {
		if status := p.wait(s.t, waitLimit); status != 0 {
			s.t.Fatalf("%s: exit status %d after SIGTERM:\n%s", p.cmd, status, tail(p.log.String(), 40))
		}
	}
	s.roles = nil
}

// destroy ends the servers, and removes all that they had.
func (s *servers) destroy() {
	s.t.Helper()
	for _, end := range s.ends {
		end()
	}
	if err := os.RemoveAll(s.data); err != nil {
		s.t.Fatal(err)
	}
}

// with is an environment in which one server is another one's.
func (s *servers) with(name string, of *servers) (env []string) {
	env = s.env()
	for i, own := range s.env() {
		if prefix := fmt.Sprintf("MILLRACE_%s_", name); len(own) > len(prefix) && own[:len(prefix)] == prefix {
			env[i] = of.env()[i]
		}
	}
	return env
}
