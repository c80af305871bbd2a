package dbpool

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Cuttable returns options like those of a pool, and a function that closes all connections
// made with them and refuses others. The driver waits for the handshake of a server that
// hangs whatever its context says: who stops cuts the connections, and what waits ends.
func Cuttable(o *clickhouse.Options) (_ *clickhouse.Options, cut func()) {
	c := newCutter()
	cuttable := *o
	cuttable.DialContext = func(ctx context.Context, addr string) (net.Conn, error) { return c.dial(ctx, addr, o) }
	return &cuttable, c.cut
}

// CuttablePostgres has the connections of a pool closed by the function that it returns, as
// Cuttable does.
func CuttablePostgres(cfg *pgxpool.Config) (cut func()) {
	c, dial := newCutter(), cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return c.keep(conn)
	}
	return c.cut
}

func newCutter() *cutter { return &cutter{open: map[*cuttable]struct{}{}} }

// cutter knows the connections of a pool.
type cutter struct {
	mu    sync.Mutex
	open  map[*cuttable]struct{}
	ended bool
}

func (c *cutter) dial(ctx context.Context, addr string, o *clickhouse.Options) (net.Conn, error) {
	if o.DialContext != nil {
		conn, err := o.DialContext(ctx, addr)
		if err != nil {
			return nil, err
		}
		return c.keep(conn)
	}
	timeout := cmp.Or(o.DialTimeout, 30*time.Second) // the driver's default
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if conn, err = c.keep(conn); err != nil || o.TLS == nil {
		return conn, err
	}
	return secure(ctx, conn, addr, o.TLS)
}

// secure does what tls.Dialer does, on a connection.
func secure(ctx context.Context, conn net.Conn, addr string, cfg *tls.Config) (net.Conn, error) {
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("connect to clickhouse: %w", err)
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// keep has a connection be among those that are cut.
func (c *cutter) keep(conn net.Conn) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		conn.Close()
		return nil, net.ErrClosed
	}
	kept := &cuttable{conn, c}
	c.open[kept] = struct{}{}
	return kept, nil
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for conn := range c.open {
		conn.Conn.Close()
	}
	clear(c.open)
}

// cuttable is a connection that a cutter knows.
type cuttable struct {
	net.Conn
	of *cutter
}

// Close implements net.Conn.
func (c *cuttable) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// SyscallConn implements syscall.Conn, by which the driver finds out that a server has
// closed a connection.
func (c *cuttable) SyscallConn() (syscall.RawConn, error) {
	conn, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, syscall.EOPNOTSUPP
	}
	return conn.SyscallConn()
}
