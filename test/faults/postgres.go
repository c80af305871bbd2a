package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Faults of what the shards' work needs.
const (
	stallPostgres    kind = "stall-postgres"
	cutPostgres      kind = "cut-postgres"
	mutePostgres     kind = "mute-postgres"
	delayPostgres    kind = "delay-postgres"
	throttlePostgres kind = "throttle-postgres"
	tearPostgres     kind = "tear-postgres"
	resetPostgres    kind = "reset-postgres"
	fullPostgres     kind = "full-postgres"
	unplugPostgres   kind = "unplug-postgres"
	killRelay        kind = "kill-relay"
	stallRelay       kind = "stall-relay"
)

// ofShards tells which faults the shards' work has to recover from; the others
// are over when events are folded again.
func ofShards(k kind) bool {
	return k == killPostgres || k == failShards || slices.Contains(ofShardsArea.names(), k)
}

// disturbShards begins a fault of Postgres, or of the relay.
func (s *saboteur) disturbShards(f fault) (end func() error, err error) {
	c, random := s.cluster, rand.New(rand.NewPCG(f.seed, 4))
	switch f.kind {
	case stallPostgres:
		return c.postgres.pauseTree()
	case cutPostgres:
		return c.toPostgres.cut()
	case mutePostgres:
		return c.toPostgres.mute()
	case delayPostgres:
		return c.toPostgres.delay(time.Duration(20+random.IntN(200)) * time.Millisecond)
	case throttlePostgres:
		return c.toPostgres.throttle(5 + random.IntN(30))
	case tearPostgres:
		return c.toPostgres.tear(1 + random.IntN(20_000))
	case resetPostgres:
		return c.toPostgres.reset(time.Duration(random.IntN(300)) * time.Millisecond)
	case fullPostgres:
		return c.fullPostgres()
	case unplugPostgres:
		return unplug(c.postgres)
	case killRelay:
		return kill(c.relay()), nil
	case stallRelay:
		return c.relay().pause(), nil
	default:
		return s.disturbJobs(f)
	}
}

// fullPostgres fills the disk of Postgres. It may end by itself when it can't
// write what it has promised to keep, and is started again.
func (c *cluster) fullPostgres() (end func() error, err error) {
	excused := c.postgres.excuse()
	empty, err := c.postgres.disk.fill(0)
	return func() error {
		err := empty()
		time.AfterFunc(10*time.Second, excused) // the last start on a full disk has failed by then
		return err
	}, err
}

// relay is the process that publishes to the work queues; the first that may,
// when none says so.
func (c *cluster) relay() *process {
	for _, p := range []*process{c.otherIngest, c.ingest} {
		if body, err := fetchWithin(time.Second, "http://"+p.http()+"/metrics"); err == nil &&
			strings.Contains(body, "\nmillrace_work_leading 1\n") {
			return p
		}
	}
	return c.ingest
}

func fetchWithin(limit time.Duration, target string) (string, error) {
	web := http.Client{Timeout: limit}
	resp, err := web.Get(target)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// postgresURL is that of the database at an address.
func (c *cluster) postgresURL(addr string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("millrace", c.postgresPassword), Host: addr,
		Path: "/millrace", RawQuery: "sslmode=disable&connect_timeout=2",
	}
	return u.String()
}

// postgresEnv tells a role where Postgres is.
func (c *cluster) postgresEnv(to wires) string {
	return "MILLRACE_POSTGRES_DSN=" + c.postgresURL(to[0].listen)
}

// preparePostgres writes the password that all others are told, for whoever it
// runs as, and keeps it for good.
func (c *cluster) preparePostgres() error {
	dir := filepath.Join(c.dir, "postgres")
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "password"))
	if err != nil {
		return err
	}
	_, err = f.WriteString(c.postgresPassword + "\n")
	return errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
}

// pauseTree stops a process and all that it has started, from the top: what
// those have started meanwhile is found by another look.
func (p *process) pauseTree() (resume func() error, err error) {
	pid := p.pid()
	if pid == 0 {
		return func() error { return nil }, nil
	}
	tree := []int{pid}
	_ = syscall.Kill(pid, syscall.SIGSTOP) // an error: it has ended
	for {
		heirs, err := descendants(pid)
		if err != nil {
			return nil, err
		}
		heirs = slices.DeleteFunc(heirs, func(heir int) bool { return slices.Contains(tree, heir) })
		if len(heirs) == 0 {
			break
		}
		for _, heir := range heirs {
			_ = syscall.Kill(heir, syscall.SIGSTOP)
		}
		tree = append(tree, heirs...)
	}
	return func() error {
		for _, pid := range tree {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		return nil
	}, nil
}

// descendants are what a process has started, and what those have, from the
// top.
func descendants(pid int) ([]int, error) {
	parents, err := parents()
	if err != nil {
		return nil, err
	}
	tree := []int{pid}
	for i := 0; i < len(tree); i++ {
		for child, parent := range parents {
			if parent == tree[i] {
				tree = append(tree, child)
			}
		}
	}
	return tree[1:], nil
}

// parents are those of all processes: none where the system does not say.
func parents() (map[int]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := map[int]int{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …; a name may contain anything.
		var state string
		var parent int
		if _, err := fmt.Sscan(string(text[strings.LastIndexByte(string(text), ')')+1:]), &state, &parent); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all[pid] = parent
	}
	return all, nil
}
