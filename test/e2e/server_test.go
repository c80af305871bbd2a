package e2e

import (
	"cmp"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// server is a "millrace up" that can be killed and started again.
type server struct {
	t     testing.TB
	ports ports
	data  string
	env   []string // settings beside addresses
	bin   string   // the program; empty: that under test
	*process
	*patience
}

// Generous: a machine that is busy with other things is no failure.
const (
	startLimit = 90 * time.Second
	waitLimit  = 90 * time.Second
)

// up starts a server in an empty data folder and waits until it is ready. Env
// holds settings as NAME=value.
func up(t testing.TB, env ...string) *server {
	t.Helper()
	s := prepare(t, env...)
	s.start()
	return s
}

// start starts a server for the first time and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	for s.begin(); !s.becomesReady(); s.begin() {
		if !strings.Contains(s.log.String(), "is taken by") && !strings.Contains(s.log.String(), "is in use: set") {
			s.t.Fatalf("the server ended while it started:\n%s", s.log)
		}
		s.ports = freePorts(s.t) // somebody was faster
	}
}

// prepare makes a server that has not been started.
func prepare(t testing.TB, env ...string) *server {
	t.Helper()
	s := &server{t: t, ports: freePorts(t), data: dataFolder(t), env: env, patience: &patience{}}
	t.Cleanup(func() {
		s.check(t)
		if t.Failed() && s.process != nil {
			t.Logf("log of the server:\n%s", tail(s.log.String(), 60))
		}
	})
	return s
}

// dataFolder is a folder that the unprivileged user of Postgres can reach, too.
func dataFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "millrace-e2e-data-*")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Log("remove the data folder:", err)
		}
	})
	return dir
}

// begin starts the process and does not wait.
func (s *server) begin() {
	s.t.Helper()
	s.process = launchProgram(s.t, cmp.Or(s.bin, binary), append(s.ports.env(), s.env...), nil, "up", "--no-demo", "--data", s.data)
}

// restart starts the server again and waits until it is ready.
func (s *server) restart() {
	s.t.Helper()
	s.begin()
	if !s.becomesReady() {
		s.t.Fatalf("the server ended while it started again:\n%s", s.log)
	}
}

// becomesReady returns false when the process ends before.
func (s *server) becomesReady() bool {
	s.t.Helper()
	ready := false
	poll(s.t, startLimit, "the server to be ready", func() bool {
		if !s.running() {
			return true
		}
		resp, err := http.Get(s.url("/ready"))
		if err != nil {
			return false
		}
		resp.Body.Close()
		// Another server may answer at a port that this one failed to get.
		ready = resp.StatusCode == http.StatusOK && strings.Contains(s.log.String(), "millrace is up")
		s.outage.Store(!ready)
		return ready
	})
	return ready
}

// stop ends the server by SIGTERM, and holds it to its promise to exit 0.
func (s *server) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if status := s.wait(s.t, waitLimit); status != 0 {
		s.t.Fatalf("exit status %d after SIGTERM:\n%s", status, tail(s.log.String(), 40))
	}
}

// killParent ends the server as kill -9 of its process alone does, and returns
// when its children are gone, too.
func (s *server) killParent() {
	s.t.Helper()
	children := descendants(s.cmd.Process.Pid)
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	<-s.done
	poll(s.t, time.Minute, "the children to die with their parent", func() bool { return len(alive(children)) == 0 })
}

func (s *server) url(path string) string { return "http://" + s.ports.HTTP + path }

func (s *server) natsURL() string { return "nats://" + s.ports.NATS }

// nats connects as Millrace does.
func (s *server) nats() *nats.Conn {
	s.t.Helper()
	var login []nats.Option
	key, err := nats.NkeyOptionFromSeed(filepath.Join(s.data, "nats", "keys", "millrace.nk"))
	switch {
	case err == nil:
		login = append(login, key)
	case !errors.Is(err, fs.ErrNotExist): // without the file, the server has no logins
		s.t.Fatal(err)
	}
	nc, err := nats.Connect(s.natsURL(), login...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// poll returns when the condition holds.
func poll(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	end := time.Now().Add(limit)
	for pause := 20 * time.Millisecond; !holds(); pause = min(pause*5/4, 250*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", limit, what)
		}
		time.Sleep(pause)
	}
}

// tail is the end of a log, without the line that each event has.
func tail(text string, lines int) string {
	all := slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"), func(line string) bool {
		return strings.Contains(line, `"msg":"event ingested"`)
	})
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
