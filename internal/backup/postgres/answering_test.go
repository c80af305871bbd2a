package postgres_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/backup/postgres"
	"github.com/millrace-io/millrace/internal/slowtest"
)

// relay passes what clients and a server say to each other, until it is stopped: then both wait, as when the server's
// machine is gone.
type relay struct {
	listener net.Listener
	server   string
	stopped  atomic.Bool
}

// relayTo returns a relay to a server, and its DSN.
func relayTo(t *testing.T, dsn string) (*relay, string) {
	u, err := url.Parse(dsn)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	r := &relay{listener: l, server: u.Host}
	go r.run()
	u.Host = l.Addr().String()
	return r, u.String()
}

func (r *relay) run() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil {
			_ = client.Close()
			return
		}
		pass := func(to, from net.Conn) {
			defer to.Close()
			_, _ = io.Copy(writer(func(p []byte) (int, error) {
				for r.stopped.Load() {
					time.Sleep(10 * time.Millisecond)
				}
				return to.Write(p)
			}), from)
		}
		go pass(client, server)
		go pass(server, client)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestSilentServer: a copy from a server that answers nobody any more ends, and the error says why. A statement of a
// server that works has the time that it takes.
func TestSilentServer(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	server, dsn := relayTo(t, engine.DSN(t))
	defer server.stopped.Store(false)
	work := func(ctx context.Context, statement string, received writer) error {
		return postgres.WhileAnswering(ctx, dsn, 4*time.Second, func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				return err
			}
			defer conn.Close(context.WithoutCancel(ctx))
			_, err = conn.PgConn().CopyTo(ctx, received, statement)
			return err
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := work(ctx, "COPY (SELECT FROM pg_sleep(6)) TO STDOUT", io.Discard.Write); err != nil {
		t.Errorf("a slow statement: %v", err)
	}
	err := work(ctx, "COPY (SELECT repeat('x', 1000) FROM generate_series(1, 100000)) TO STDOUT",
		func(p []byte) (int, error) {
			server.stopped.Store(true)
			return len(p), nil
		})
	if err == nil || !strings.Contains(err.Error(), "no answer from Postgres for ") {
		t.Errorf("a server that has stopped: %v", err)
	}
}
