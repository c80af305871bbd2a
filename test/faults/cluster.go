package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/embedded/port"
)

// lease is short, so that a stalled projector is replaced many times in a run.
const lease = 3 * time.Second

// cluster is an installation with each part in a process of its own.
type cluster struct {
	dir                                     string
	nats, clickhouse, ingest, query         *process
	projectors                              []*process // of one slot group; the third one is held down at first
	toNATS, toClickHouse                    *proxy
	natsAddr, chHTTP, ingestAddr, queryAddr string
}

func newCluster(dir, bin string) (*cluster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addrs, err := freeAddrs(10)
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, natsAddr: addrs[0], chHTTP: addrs[2], ingestAddr: addrs[3], queryAddr: addrs[4]}
	c.toNATS, c.toClickHouse = newProxy(addrs[8], addrs[0]), newProxy(addrs[9], addrs[1])
	shared := []string{
		"MILLRACE_NATS_URL=nats://" + c.toNATS.listen,
		"MILLRACE_CLICKHOUSE_DSN=clickhouse://default@" + c.toClickHouse.listen + "/millrace",
		"MILLRACE_DEDUP_WINDOW=" + dedupWindow.String(),
		"MILLRACE_PROJECTOR_LEASE=" + lease.String(),
		"MILLRACE_LOG_LEVEL=debug", "MILLRACE_LOG_FORMAT=json",
	}
	serve := func(name, role, addr string) *process {
		return newProcess(dir, name, bin, `"msg":"serving"`, append([]string{"MILLRACE_HTTP_ADDR=" + addr}, shared...),
			"serve", "--role="+role, "--ingest-rate=0", "--data="+filepath.Join(dir, name))
	}
	c.nats = newProcess(dir, "nats", self, "", []string{envPart + "=nats", envListen + "=" + addrs[0], envStore + "=" + filepath.Join(dir, "nats")})
	c.clickhouse = newProcess(dir, "clickhouse", bin, "", nil, "clickhouse", "--data="+filepath.Join(dir, "clickhouse"),
		"--clickhouse-listen="+addrs[1], "--clickhouse-http="+addrs[2])
	c.ingest = serve("ingest", "ingest", addrs[3])
	c.query = serve("query", "query", addrs[4])
	for i, name := range []string{"projector-a", "projector-b", "projector-c"} {
		c.projectors = append(c.projectors, serve(name, "projector", addrs[5+i]))
	}
	c.projectors[2].holds = 1
	return c, nil
}

func (c *cluster) all() []*process {
	return append([]*process{c.nats, c.clickhouse, c.ingest, c.query}, c.projectors...)
}

// run keeps every part running until ctx ends.
func (c *cluster) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range c.all() {
		g.Go(func() error { return p.run(ctx) })
	}
	g.Go(func() error { return c.toNATS.run(ctx) })
	g.Go(func() error { return c.toClickHouse.run(ctx) })
	return g.Wait()
}

// owned returns the projector of this owner's name, nil when none has it.
func (c *cluster) owned(owner string) *process {
	for _, p := range c.projectors {
		name, err := os.ReadFile(filepath.Join(c.dir, p.name, "projector", "owner"))
		if err == nil && owner != "" && string(name) == owner {
			return p
		}
	}
	return nil
}

// dropKeys removes the key store of a projector that is down.
func (c *cluster) dropKeys(p *process) error {
	return os.RemoveAll(filepath.Join(c.dir, p.name, "projector", "keys"))
}

// freeAddrs returns loopback addresses that nobody listens on. They lie below
// the range that systems take the ports of outgoing connections from, so that
// none of those is in the way when a part comes back.
func freeAddrs(n int) ([]string, error) {
	var found []string
	seen := map[string]bool{}
	for range 100 * n {
		addr := fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(17_000))
		if seen[addr] {
			continue
		}
		seen[addr] = true
		if _, err := port.Try(addr); err != nil {
			continue
		}
		if found = append(found, addr); len(found) == n {
			return found, nil
		}
	}
	return nil, errors.New("no free ports found")
}
