package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/millrace-io/millrace/internal/embedded/port"
	"github.com/millrace-io/millrace/schemas/stream"
)

// cluster measures publishing and folding with three NATS servers that hold each stream in
// three copies, beside one server that holds it once. All sync each write to disk, and all
// share this machine, so that the ratio is less than that of three machines.
func (b *bench) cluster(ctx context.Context) error {
	if b.running != nil { // it would only be in the way
		err := b.running.close()
		if b.running = nil; err != nil {
			return err
		}
	}
	file, err := b.file()
	if err != nil {
		return err
	}
	b.say("NATS clusters")
	type rates struct{ emitted, folded float64 }
	got := map[int]rates{}
	for _, servers := range []int{1, 3} {
		var r rates
		if r.emitted, r.folded, err = b.emitToCluster(ctx, file, servers); err != nil {
			return fmt.Errorf("%d servers: %w", servers, err)
		}
		got[servers] = r
	}
	const s, one = "cluster", "one NATS server, one copy"
	b.add(
		line{s, "emit into three NATS servers, three copies", "events/s", more, got[3].emitted, one, got[1].emitted},
		line{s, "emitted and folded", "events/s", more, got[3].folded, one, got[1].folded},
	)
	return nil
}

// emitToCluster emits the events of a file into servers, and has them folded meanwhile.
func (b *bench) emitToCluster(ctx context.Context, file string, servers int) (emitted, folded float64, err error) {
	dir, err := b.folder("cluster-*")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	addrs, stop, err := natsCluster(dir, servers)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	m, err := b.upWith(ctx, filepath.Join(dir, "millrace"), addrs, "MILLRACE_NATS_REPLICAS="+strconv.Itoa(servers))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	return b.emitInto(ctx, m, file)
}

// natsCluster starts NATS servers that are one cluster, or one server, each in its process.
func natsCluster(dir string, n int) (addrs []string, stop func() error, err error) {
	all, err := port.Reserve(2 * n)
	if err != nil {
		return nil, nil, err
	}
	addrs, peers := all[:n], all[n:]
	var parts []*part
	stop = func() (err error) {
		for _, p := range parts {
			err = errors.Join(err, p.stop())
		}
		return err
	}
	for i, addr := range addrs {
		p, err := start("node", partConfig{Dir: filepath.Join(dir, fmt.Sprint("node-", i)), NATS: addr, Peers: peers, Peer: i}, nil)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		parts = append(parts, p)
	}
	for _, addr := range addrs {
		if err := awaitNATS(addr); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
	}
	return addrs, stop, nil
}

// serveNode serves as one NATS server of a cluster, or as the only one.
func serveNode(ctx context.Context, cfg partConfig) error {
	host, port, err := splitAddr(cfg.NATS)
	if err != nil {
		return err
	}
	opts := &server.Options{
		ServerName: fmt.Sprint("node-", cfg.Peer), Host: host, Port: port, MaxPayload: 8 << 20, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: cfg.Dir, JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 1 << 40, SyncAlways: true,
	}
	if len(cfg.Peers) > 1 {
		opts.Cluster.Name = "bench"
		if opts.Cluster.Host, opts.Cluster.Port, err = splitAddr(cfg.Peers[cfg.Peer]); err != nil {
			return err
		}
		for _, addr := range cfg.Peers {
			opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: addr})
		}
	}
	login := fmt.Sprintf("{user: %s, password: %s}", natsUser, natsPassword)
	accounts := stream.AccountsConfig(map[string][]string{stream.RoleMillrace: {login}}, stream.DefaultConnections)
	if err := opts.ProcessConfigString(accounts); err != nil {
		return fmt.Errorf("configure the NATS server: %w", err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("make the NATS server: %w", err)
	}
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	return nil
}

func splitAddr(addr string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(number)
	return host, port, err
}

// awaitNATS returns when a server takes connections.
func awaitNATS(addr string) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		nc, _, err := dial(addr)
		if err == nil {
			nc.Close()
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}
