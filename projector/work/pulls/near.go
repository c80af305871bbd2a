package pulls

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

// near has connections to the servers of a cluster. A request that is withdrawn, or whose
// connection has ended, is dropped only by the server at which it has come in: any other one
// sees that server's interest in all replies, and goes on to hand out items that nobody gets.
// So requests go in at the server that leads their consumer. Concurrent use is fine.
type near struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	lost func(server string, nc *nats.Conn) // is called when a connection has ended

	mu    sync.Mutex
	conns map[string]*nats.Conn // by the names of servers
}

// leaderRetry is the time between two questions for the leader of a consumer.
const leaderRetry = 250 * time.Millisecond

// leader returns the name of the server that leads a consumer of Work; "" for a server
// that is alone, and for a consumer that does not exist. It waits while there is none.
func (n *near) leader(ctx context.Context, consumer string) (string, error) {
	loop := retry.NewLoop(ctx)
	defer loop.End()
	for {
		attempt, cancel := context.WithTimeout(ctx, answerWait)
		c, err := n.js.Consumer(attempt, stream.Work, consumer)
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound), err == nil && c.CachedInfo().Cluster == nil:
			return "", nil
		case err == nil && c.CachedInfo().Cluster.Leader != "":
			return c.CachedInfo().Cluster.Leader, nil
		case err != nil:
			loop.Failed(err)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(leaderRetry):
		}
	}
}

// at returns a connection to a server. One that is alone has no name: "".
func (n *near) at(server string) (*nats.Conn, error) {
	if server == "" {
		return n.nc, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if nc := n.conns[server]; nc != nil && !nc.IsClosed() {
		return nc, nil
	}
	var errs []error
	for _, address := range n.nc.Servers() {
		nc, err := n.connect(address)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		name := nc.ConnectedServerName()
		if was := n.conns[name]; was != nil && !was.IsClosed() {
			nc.Close()
			continue
		}
		nc.SetClosedHandler(func(nc *nats.Conn) { n.lost(name, nc) })
		n.conns[name] = nc
		if name == server && !nc.IsClosed() {
			return nc, nil
		}
	}
	return nil, fmt.Errorf("no known address leads to the NATS server %s: %w", server, errors.Join(errs...))
}

// connect connects to an address as n.nc has connected to its own. The connection ends with
// the first fault: its requests have gone with it.
func (n *near) connect(address string) (*nats.Conn, error) {
	o := n.nc.Opts
	if u, err := url.Parse(n.nc.ConnectedUrl()); err == nil && u.User != nil {
		o.User = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	o.Url, o.Servers = address, nil
	o.AllowReconnect, o.RetryOnFailedConnect = false, false
	o.ConnectedCB, o.DisconnectedCB, o.DisconnectedErrCB, o.ReconnectedCB, o.DiscoveredServersCB = nil, nil, nil, nil, nil
	o.ClosedCB = nil
	return o.Connect()
}

func (n *near) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, nc := range n.conns {
		nc.Close()
	}
}
