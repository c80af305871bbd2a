package main

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/internal/embedded/port"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestWires: of several wires to a server one can be cut while the others lead
// there, and what is cut twice stays cut until both are over.
func TestWires(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go io.Copy(conn, conn)
		}
	}()
	addrs, err := port.Reserve(2)
	must(t, err)
	own, other := newWire(addrs[0], server.Addr().String()), newWire(addrs[1], server.Addr().String())
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	for _, w := range (wires{own, other}) {
		ended.Go(func() {
			if err := w.run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	lead := func(name string, want ...*wire) {
		t.Helper()
		for _, w := range (wires{own, other}) {
			if got := echoes(w); got != slices.Contains(want, w) {
				t.Errorf("%s: that of %s leads there: %v", name, w.listen, got)
			}
		}
	}
	if !within(startLimit, func() bool { return echoes(own) && echoes(other) }) {
		t.Fatal("they lead nowhere")
	}
	mendOwn, err := wires{own}.cut()
	must(t, err)
	lead("one is cut", other)
	mendAll, err := wires{own, other}.cut()
	must(t, err)
	lead("all are cut")
	must(t, mendAll())
	lead("one is cut still", other)
	must(t, mendOwn())
	lead("none is cut", own, other)
}

// echoes tells whether what is sent over a wire comes back.
func echoes(w *wire) bool {
	conn, err := net.Dial("tcp", w.listen)
	if err != nil {
		return false
	}
	defer conn.Close()
	answer := make([]byte, 1)
	_, err = conn.Write([]byte("x"))
	if err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	return err == nil && answer[0] == 'x'
}

// TestWiresOfTheirOwn: no projector shares a wire with anybody, to any of the
// brokers or to ClickHouse, and a fault of all connections has each of them.
func TestWiresOfTheirOwn(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		c, err := newCluster(t.TempDir(), "", config{nodes: nodes, groups: 1, soak: true})
		must(t, err)
		seen := map[string]bool{}
		all := []links{c.shared}
		for _, p := range c.projectors {
			all = append(all, p.links)
		}
		for _, l := range all {
			if len(l.nats) != nodes || len(l.clickhouse) != 1 {
				t.Errorf("%d nodes: %+v", nodes, l)
			}
			for _, w := range slices.Concat(l.nats, l.clickhouse) {
				if seen[w.listen] || !slices.Contains(slices.Concat(c.toNATS, c.toClickHouse), w) {
					t.Errorf("%d nodes: %s is not one of its own, or not one of all", nodes, w.listen)
				}
				seen[w.listen] = true
			}
		}
		for _, p := range c.projectors {
			told := p.env[slices.IndexFunc(p.env, func(v string) bool {
				return strings.HasSuffix(v, p.links.natsURL(stream.RoleMillrace))
			}):]
			if !slices.Equal(told, p.links.env()) { // the last ones count
				t.Errorf("%s is told %v", p.name, p.env)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
