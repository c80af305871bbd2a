package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// Cluster makes a server one of several that answer each other's queries, for tests of Distributed tables. Each of
// its servers has the same Config.Cluster, read-write login and database; each is a shard without replicas.
//
// A server of a cluster has no login for analysts: what reaches one server reaches all. It connects to Shards, and
// takes queries of other servers from their hosts only. The process may not be confined, since it connects to others.
//
// A statement ON CLUSTER is sent to all shards, one after the other, and fails when one of them does. On a stock
// server it goes through a queue in Keeper.
type Cluster struct {
	Name   string
	Shards []string // addresses of the native protocol, in the order of the shards
}

func (c *Cluster) validate() error {
	switch {
	case c == nil:
		return nil
	case !identifier.MatchString(c.Name):
		return fmt.Errorf("clickhouse: cluster %q: letters, digits and _ only", c.Name)
	case len(c.Shards) == 0:
		return fmt.Errorf("clickhouse: cluster %s has no shards", c.Name)
	}
	for _, shard := range c.Shards {
		host, port, err := net.SplitHostPort(shard)
		if err != nil || net.ParseIP(host) == nil {
			return fmt.Errorf("clickhouse: cluster %s: shard %q: an address and a port are needed", c.Name, shard)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("clickhouse: cluster %s: shard %q: invalid port", c.Name, shard)
		}
	}
	return nil
}

// clusterSettings are those of the sessions of a server in a cluster. Large constants are sent in the statement: the
// library takes none beside it.
const clusterSettings = "optimize_const_name_size = -1"

// clusterArgs are the engine's arguments for the cluster of cfg.
func clusterArgs(cfg Config) (args []string) {
	if cfg.Cluster == nil {
		return nil
	}
	for i, shard := range cfg.Cluster.Shards {
		host, port, _ := net.SplitHostPort(shard)
		for _, f := range [...][2]string{
			{"host", host},
			{"port", port},
			{"user", cfg.User},
			{"password", cfg.Password},
			{"default_database", cfg.Database},
		} {
			args = append(args, fmt.Sprintf("--remote_servers.%s.shard%d.replica.%s=%s", cfg.Cluster.Name, i+1, f[0], f[1]))
		}
	}
	return args
}

// admits tells whether a client of the read-write login is a server of the cluster.
func (c *Cluster) admits(client string, from net.Addr) bool {
	if c == nil || client != native.PeerName {
		return false
	}
	tcp, ok := from.(*net.TCPAddr)
	if !ok {
		return false
	}
	for _, shard := range c.Shards {
		host, _, _ := net.SplitHostPort(shard)
		if tcp.IP.Equal(net.ParseIP(host)) {
			return true
		}
	}
	return false
}

// errNoAnalysts is why a server of a cluster refuses the read-only login.
func errNoAnalysts() error {
	return exception(codeAccessDenied, "ACCESS_DENIED", "A server of a cluster for tests has no read-only login")
}

// everywhere runs a statement on all shards. It is false for one that is not ON CLUSTER.
func (s *writerSession) everywhere(ctx context.Context, q query) (bool, error) {
	c := s.engine.cfg.Cluster
	if c == nil || !distributable(q.Verb) {
		return false, nil
	}
	text, name := statement.OnCluster(q.Text)
	if name != c.Name {
		return false, nil
	}
	row, err := s.conn.Query("SELECT currentDatabase()", "TSVRaw")
	if err != nil {
		return true, fmt.Errorf("ask for the current database: %w", err)
	}
	ask := ch.Query{Body: text}
	for name, value := range q.settings {
		ask.Settings = append(ask.Settings, ch.Setting{Key: name, Value: value})
	}
	for _, p := range q.params {
		ask.Parameters = append(ask.Parameters, proto.Parameter{Key: p.Name, Value: quote(p.Value)})
	}
	var failed []error
	for _, shard := range c.Shards {
		if err := s.shards.do(ctx, s.engine.cfg, shard, strings.TrimSuffix(string(row.Data), "\n"), ask); err != nil {
			failed = append(failed, fmt.Errorf("on shard %s: %w", shard, err))
		}
	}
	return true, errors.Join(failed...)
}

// distributable tells whether a statement of this kind can be ON CLUSTER.
func distributable(verb string) bool {
	switch verb {
	case "CREATE", "ALTER", "DELETE", "DROP", "RENAME", "TRUNCATE", "OPTIMIZE", "SYSTEM":
		return true
	}
	return false
}

// shardClients are a session's connections to shards, by their databases and addresses.
type shardClients map[[2]string]*ch.Client

func (c *shardClients) do(ctx context.Context, cfg Config, shard, database string, q ch.Query) error {
	if *c == nil {
		*c = shardClients{}
	}
	key := [2]string{database, shard}
	if (*c)[key] == nil || (*c)[key].IsClosed() {
		client, err := ch.Dial(ctx, ch.Options{Address: shard, Database: database, User: cfg.User, Password: cfg.Password})
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		(*c)[key] = client
	}
	return (*c)[key].Do(ctx, q)
}

func (c *shardClients) close() {
	for _, client := range *c {
		_ = client.Close()
	}
}
