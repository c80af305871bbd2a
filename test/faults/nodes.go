package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// nodes are the NATS servers of a cluster, each with storage of its own, and
// the wires between each two of them.
type nodes struct {
	processes []*process
	routes    map[[2]int]*wire // from one to another
}

// newNodes returns them, and where clients connect to each.
func newNodes(dir, self string, n int, take func(n int) []string) (c *nodes, addrs []string) {
	c, addrs = &nodes{routes: map[[2]int]*wire{}}, take(n)
	peers, unused := take(n), take(n)
	for i := range n {
		// What others are told of this node leads nowhere: they know better
		// wires.
		routes := []string{peers[i], unused[i]}
		for j := range n {
			if i != j {
				w := newWire(take(1)[0], peers[j])
				c.routes[[2]int{i, j}] = w
				routes = append(routes, w.listen)
			}
		}
		name := fmt.Sprint("node-", i)
		c.processes = append(c.processes, newProcess(dir, name, self, "", []string{
			envPart + "=node", envName + "=" + name, envListen + "=" + addrs[i], envStore + "=" +
				filepath.Join(dir, name),
			envRoutes + "=" + strings.Join(routes, ","),
		}))
	}
	return c, addrs
}

// leader returns the process of the event stream's leader; any one when it is
// not known, or not asked for.
func (c *nodes) leader(js jetstream.JetStream, asked bool) *process {
	if asked {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if s, err := js.Stream(ctx, stream.Events); err == nil && s.CachedInfo().Cluster != nil {
			for _, p := range c.processes {
				if p.name == s.CachedInfo().Cluster.Leader {
					return p
				}
			}
		}
	}
	return c.processes[rand.IntN(len(c.processes))]
}

// partition cuts a node off from the others. Clients still reach it.
func (c *nodes) partition(p *process) (end func() error, err error) {
	var cut wires
	for i, other := range c.processes {
		for pair, w := range c.routes {
			if other == p && (pair[0] == i || pair[1] == i) {
				cut = append(cut, w)
			}
		}
	}
	return cut.cut()
}

// node is one server of the cluster, in a process of its own.
type node struct{ opts *server.Options }

func newNode(listen, store string) (*node, error) {
	routes := strings.Split(os.Getenv(envRoutes), ",")
	host, port, err := splitAddr(listen)
	if err != nil {
		return nil, err
	}
	peerHost, peerPort, err := splitAddr(routes[0])
	if err != nil {
		return nil, err
	}
	var others []*url.URL
	for _, addr := range routes[2:] {
		others = append(others, &url.URL{Scheme: "nats-route", Host: addr})
	}
	opts := &server.Options{
		ServerName: os.Getenv(envName), Host: host, Port: port,
		JetStream: true, StoreDir: store, JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 1 << 40, SyncAlways: true,
		MaxPayload: 8 << 20, NoSigs: true, Routes: others,
		// clients stay on their wires
		Cluster: server.ClusterOpts{
			Name: "faults", Host: peerHost, Port: peerPort, Advertise: routes[1],
			NoAdvertise: true,
		},
	}
	logins := map[string][]string{}
	for role := range passwords() {
		logins[role] = []string{fmt.Sprintf("{user: %s, password: %s}", role, password)}
	}
	return &node{opts}, opts.ProcessConfigString(stream.AccountsConfig(logins, stream.DefaultConnections))
}

// Run serves until the process ends.
func (n *node) Run(context.Context) error {
	s, err := server.NewServer(n.opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger() // to standard error
	s.Start()
	s.WaitForShutdown()
	return errors.New("the node has ended")
}

func splitAddr(addr string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(number)
	return host, port, err
}
