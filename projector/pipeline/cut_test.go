package pipeline_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/projector/pipeline"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// TestCutOffWhileLoading: what a projector can't fold, because it was cut off
// from ClickHouse while it had nothing to do and needs rows from there, is
// folded by another one.
func TestCutOffWhileLoading(t *testing.T) {
	b := newBench(t)
	rng := rand.New(rand.NewPCG(6, 1))
	var sent [][2]string
	stop := b.start(nil)
	b.history(rng, 200, &sent)
	b.reach(b.truth.last)
	stop()

	direct := b.ch
	w := newWay(t, direct.Addr[0])
	over := *direct
	over.Addr = []string{w.addr}
	b.ch = &over
	lease := func(c *pipeline.Config) { c.Lease = time.Second }
	first := b.start(lease)
	owned := 0
	b.watch("an owner that has nothing to do", func(_ string, r contract.Checkpoint) bool {
		if r.Owner != "" {
			owned++
		}
		return owned == 3 // it has taken the group, and said twice that it is alive
	})
	w.cut()
	b.history(rng, 20, &sent)

	b.ch, b.dir = direct, t.TempDir()
	defer b.start(lease)()
	b.reach(b.truth.last)
	w.open()
	first()
	b.check()
}

// way is what connections to a server pass through until it is cut.
type way struct {
	t            *testing.T
	addr, server string
	listener     net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func newWay(t *testing.T, server string) *way {
	w := &way{t: t, addr: "127.0.0.1:0", server: server}
	w.open()
	t.Cleanup(w.cut)
	return w
}

// open has new connections pass.
func (w *way) open() {
	w.t.Helper()
	l, err := net.Listen("tcp", w.addr)
	must(w.t, err)
	w.listener, w.addr = l, l.Addr().String()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", w.server)
			if err != nil {
				client.Close()
				return
			}
			w.mu.Lock()
			w.conns = append(w.conns, client, server)
			w.mu.Unlock()
			go forward(client, server)
			go forward(server, client)
		}
	}()
}

func forward(to, from net.Conn) {
	defer to.Close()
	_, _ = io.Copy(to, from) // until either end, or a cut
}

// cut ends every connection, and refuses new ones.
func (w *way) cut() {
	w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}
