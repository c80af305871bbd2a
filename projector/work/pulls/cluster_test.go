package pulls

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// startCluster is startWith for a cluster of three servers. The service is connected to
// one that does not lead the consumer of the queue, and workers connect to the third.
func startCluster(t *testing.T, lease time.Duration) *site {
	t.Helper()
	servers := cluster(t, 3)
	s := &site{t: t, servers: servers}
	setup := s.dial(servers[0], stream.RoleMillrace)
	js, err := jetstream.New(setup)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.WorkConfig{AckWait: lease, Replicas: 3}
	s.await(func() error { return stream.EnsureWork(t.Context(), js, []string{"q"}, cfg) })
	leader := s.leaderOf(js)
	setup.Close()
	s.others = slices.DeleteFunc(slices.Clone(servers), func(srv *server.Server) bool { return srv.Name() == leader })
	s.worker = func() *nats.Conn { return s.dial(s.others[1], stream.RoleWorker) }
	s.subs = func() (n int) {
		for _, srv := range servers {
			all, err := srv.Connz(&server.ConnzOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all.Conns {
				if c.Name == stream.RoleMillrace {
					n += int(c.NumSubs)
				}
			}
		}
		return n
	}
	nc := s.dial(s.others[0], stream.RoleMillrace)
	if _, err := nc.Request(jetstream.DefaultAPIPrefix+"INFO", nil, time.Minute); err != nil { // its inbox counts
		t.Fatal(err)
	}
	s.serve(nc, lease)
	for _, srv := range servers {
		s.await(func() error {
			account, err := srv.LookupAccount("MILLRACE")
			if err == nil && !account.SubscriptionInterest(strings.Replace(stream.WorkPulls, "*", "q", 1)) {
				err = fmt.Errorf("%s does not know of the service", srv.Name())
			}
			return err
		})
	}
	return s
}

// dial connects to a server with a login.
func (s *site) dial(srv *server.Server, login string) *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(fmt.Sprintf("nats://%s:pw@%s", login, srv.Addr()), nats.Name(login))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// await calls a function until it succeeds.
func (s *site) await(f func() error) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.t.Fatal(err)
		}
	}
}

// leaderOf returns the name of the server that leads the consumer of the queue.
func (s *site) leaderOf(js jetstream.JetStream) string {
	s.t.Helper()
	var leader string
	s.await(func() error {
		c, err := js.Consumer(s.t.Context(), stream.Work, "q")
		if err != nil {
			return err
		}
		if leader = c.CachedInfo().Cluster.Leader; leader == "" {
			return errors.New("no server leads the consumer")
		}
		return nil
	})
	return leader
}

// cluster runs servers with the accounts of the roles until the test ends.
func cluster(t *testing.T, n int) (servers []*server.Server) {
	t.Helper()
	logins := map[string][]string{}
	for _, role := range []string{stream.RoleMillrace, stream.RoleWorker} {
		logins[role] = []string{fmt.Sprintf("{user: %s, password: pw}", role)}
	}
	var routes []*url.URL
	var listeners []net.Listener
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: ln.Addr().String()})
		listeners = append(listeners, ln)
	}
	for i := range n {
		port, _ := strconv.Atoi(routes[i].Port())
		opts := &server.Options{
			ServerName: fmt.Sprint("node-", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 30,
			MaxPayload: 8 << 20, Routes: routes,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port},
		}
		if err := opts.ProcessConfigString(stream.AccountsConfig(logins, stream.DefaultConnections)); err != nil {
			t.Fatal(err)
		}
		srv, err := server.NewServer(opts)
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, srv)
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	}
	for i, srv := range servers {
		if err := listeners[i].Close(); err != nil {
			t.Fatal(err)
		}
		srv.Start()
	}
	for _, srv := range servers {
		if !srv.ReadyForConnections(time.Minute) {
			t.Fatal("a server is not ready")
		}
	}
	return servers
}

// TestLeaderMoves: a client that consumes gets every item once, whichever server leads the
// consumer, and after the server that led it has ended.
func TestLeaderMoves(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := startCluster(t, time.Hour)
	messages, err := s.consumer(s.connect()).Messages(jetstream.PullMaxMessages(100),
		jetstream.PullExpiry(10*time.Second), jetstream.WithMessagesErrOnMissingHeartbeat(false))
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	const moves, items = 6, 20
	for i := range moves {
		t.Logf("%s: after %d moves", time.Now().Format("05.000"), i)
		s.await(func() error { _, err := s.js.Stream(t.Context(), stream.Work); return err })
		s.add(items)
		for range items {
			m := s.next(messages)
			if n := deliveries(t, m); n != 1 {
				t.Errorf("after %d moves, an item was delivered %d times", i, n)
			}
			if err := s.doubleAck(m); err != nil {
				t.Error(err)
			}
		}
		if i == moves-1 {
			break
		}
		leader := s.leaderOf(s.js)
		if i == moves-2 {
			s.servers[slices.IndexFunc(s.servers, func(srv *server.Server) bool { return srv.Name() == leader })].Shutdown()
			continue
		}
		_, err := s.nc.Request("$JS.API.CONSUMER.LEADER.STEPDOWN.WORK.q", nil, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for s.leaderOf(s.js) == leader {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// TestGoneInCluster is TestGone where another server leads the consumer.
func TestGoneInCluster(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	startCluster(t, time.Hour).gone(func() {})
}

// TestGoneWithServer is TestGone where their server ends with them.
func TestGoneWithServer(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := startCluster(t, time.Hour)
	s.gone(func() {
		s.others[1].Shutdown()
		s.worker = func() *nats.Conn { return s.dial(s.others[0], stream.RoleWorker) }
	})
}
