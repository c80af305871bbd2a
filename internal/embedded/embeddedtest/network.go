package embeddedtest

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Network leads from a pool to its Postgres, and fails when a test has it fail. The
// zero value is sound.
type Network struct {
	mu    sync.Mutex
	thaw  chan struct{} // closed when what is frozen goes on; nil: nothing is
	cut   bool
	conns []net.Conn
	// refused counts connections that were asked for since the last cut.
	refused int
}

// Configure has the connections of a pool go over the network.
func (n *Network) Configure(cfg *pgxpool.Config) {
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.cut {
			n.refused++
			return nil, errors.Join(errCut, conn.Close())
		}
		n.conns = append(n.conns, conn)
		return networkConn{conn, n}, nil
	}
}

var errCut = errors.New("the network is cut")

// Freeze has whoever sends wait, without being told, until thaw is called: to the
// other end it looks as if the process stood still.
func (n *Network) Freeze() (thaw func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.thaw = make(chan struct{})
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		close(n.thaw)
		n.thaw = nil
	})
}

// Cut closes all connections, and refuses new ones until mend is called.
func (n *Network) Cut() (mend func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut, n.refused = true, 0
	for _, conn := range n.conns {
		_ = conn.Close() // it may be closed already
	}
	n.conns = nil
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.cut = false
	}
}

// Refused returns how many connections were asked for since the last cut and not
// made.
func (n *Network) Refused() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refused
}

type networkConn struct {
	net.Conn
	network *Network
}

func (c networkConn) Write(b []byte) (int, error) {
	c.network.mu.Lock()
	thaw := c.network.thaw
	c.network.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
	return c.Conn.Write(b)
}
