package clickhouse_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/ch-go/proto"
	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
)

// shardedTables are t, distributed over the shards, and whole, with the same rows on one server.
var shardedTables = []string{
	"CREATE TABLE t_local ON CLUSTER main (n UInt64, s LowCardinality(String), f Nullable(Float64), " +
		"at DateTime64(9, 'UTC'), a Array(String)) ENGINE = ReplacingMergeTree ORDER BY n",
	"CREATE TABLE t ON CLUSTER `main` AS t_local ENGINE = Distributed('main', currentDatabase(), 't_local', cityHash64(n))",
	"CREATE TABLE whole AS t_local",
	"SYSTEM STOP MERGES ON CLUSTER main",
}

var shardedRows = []string{
	"SELECT number, toString(number % 7), if(number % 3 = 0, NULL, number / 8), " +
		"toDateTime64('2026-01-01', 9, 'UTC') + number, [toString(number), 'x'] FROM numbers(10000)",
	"SELECT number, toString(number % 7), 1, toDateTime64('2026-01-01', 9, 'UTC') + number, [] FROM numbers(10)",
}

// shardedQueries are queries of a table, each for something else that shards send: rows, states of aggregates, sorted
// and limited parts, and what the first server has sent to them.
var shardedQueries = []string{
	"SELECT count() FROM TABLE",
	"SELECT count(), sum(n), min(at), max(f), avg(f), any(length(s)), uniqExact(s) FROM TABLE",
	"SELECT groupArray(x) FROM (SELECT (s, count(), sum(n), uniqCombined64(17)(n), quantileExact(0.5)(n), max(at)) AS x " +
		"FROM TABLE GROUP BY s ORDER BY s)",
	"SELECT groupArray(x) FROM (SELECT (s, n, at, a) AS x FROM TABLE ORDER BY n DESC, length(a) LIMIT 20 OFFSET 5)",
	"SELECT groupArray(x) FROM (SELECT (s, n) AS x FROM TABLE ORDER BY s, n LIMIT 2 BY s)",
	"SELECT groupArray(s) FROM (SELECT DISTINCT s FROM TABLE ORDER BY s)",
	"SELECT count(), sum(length(a)) FROM TABLE FINAL",
	"SELECT groupArray(x) FROM (SELECT (s, countIf(n > 5000), argMax(f, (n, length(a))), sumMap(map(s, n))) AS x FROM TABLE " +
		"GROUP BY s HAVING sum(n) > 3 ORDER BY sum(n) DESC)",
	"SELECT count() FROM TABLE WHERE n GLOBAL IN (SELECT n FROM t WHERE s = '3')",
	"SELECT sum(m), sum(c) FROM (SELECT n % 100 AS m, count() OVER (PARTITION BY s) AS c FROM TABLE)",
	"SELECT groupArray(x) FROM (SELECT (arrayJoin(a), count()) AS x FROM TABLE WHERE n < 20 GROUP BY arrayJoin(a) ORDER BY x)",
	"SELECT sum(l.n) FROM TABLE AS l GLOBAL INNER JOIN (SELECT DISTINCT n FROM t WHERE n < 100) AS r ON l.n = r.n",
	"SELECT max(c) FROM (SELECT n, count() AS c FROM TABLE GROUP BY n)",
	"SELECT count() FROM TABLE WHERE at > (SELECT avg(at) FROM t) AND s IN ('1', '2')",
	"SELECT sum(c) FROM (SELECT n % 5 AS k, count() AS c FROM TABLE GROUP BY k WITH TOTALS)",
}

// row is the only row of a query, as text.
func row(t *testing.T, conn driver.Conn, sql string) string {
	t.Helper()
	return word(t, testContext(t), conn, "SELECT toString(tuple(*)) FROM ("+sql+")")
}

// TestDistributed: a table over shards answers each query as one server does, and says so when a shard is away.
func TestDistributed(t *testing.T) {
	for _, shards := range []int{2, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			cluster := embeddedtest.StartShards(t, shards)
			conn := open(t, cluster.Options(0, "millrace"))
			for _, sql := range shardedTables {
				exec(t, conn, sql)
			}
			for _, rows := range shardedRows {
				exec(t, conn, "INSERT INTO t "+rows)
				exec(t, conn, "INSERT INTO whole "+rows)
			}
			for i := range shards {
				n := count(t, open(t, cluster.Options(i, "millrace")), "SELECT count() FROM t_local")
				if n == 0 || n > 2*10010/uint64(shards) {
					t.Errorf("shard %d has %d rows", i, n)
				}
			}
			for _, sql := range shardedQueries {
				got := row(t, conn, strings.ReplaceAll(sql, "TABLE", "t"))
				if want := row(t, conn, strings.ReplaceAll(sql, "TABLE", "whole")); got != want {
					t.Errorf("%s\n is %s\nwant %s", sql, got, want)
				}
			}
			cluster.Stop(t, 1)
			_ = conn.Exec(testContext(t), "SELECT count() FROM t") // is told of it over the old connection
			err := conn.Exec(testContext(t), "SELECT count() FROM t")
			if err == nil || !strings.Contains(err.Error(), "ALL_CONNECTION_TRIES_FAILED") {
				t.Errorf("without a shard, a count has the error %v", err)
			}
			cluster.Start(t, 1)
			if n := count(t, conn, "SELECT count() FROM t"); n != 10010 {
				t.Errorf("%d rows when the shard is back", n)
			}
		})
	}
}

// TestNoAnalystsInCluster: a server of a cluster lets in nobody who may only read.
func TestNoAnalystsInCluster(t *testing.T) {
	cluster := embeddedtest.StartShards(t, 1)
	exec(t, open(t, cluster.Options(0, "millrace")), "SELECT 1")
	o := cluster.Options(0, "millrace")
	o.Auth.Username = "analyst"
	if conn, err := ch.Open(o); err != nil || conn.Ping(testContext(t)) == nil || conn.Close() != nil {
		t.Error("an analyst is let in:", err)
	}
	resp, err := http.Get("http://" + cluster.HTTPAddr(0) + "/?user=analyst&query=SELECT+1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusOK || !strings.Contains(string(text), "no read-only login") {
		t.Errorf("over HTTP: %d %s", resp.StatusCode, text)
	}
}

// peerQuery is a query as another server sends it, for states of aggregates.
func peerQuery(text string) []byte {
	var b proto.Buffer
	proto.Query{
		Body: text, Stage: proto.StageComplete,
		Info: proto.ClientInfo{
			ProtocolVersion: native.Revision, Interface: proto.InterfaceTCP, Query: proto.ClientQuerySecondary,
		},
	}.EncodeAware(&b, native.Revision)
	// The stage, no compression and the text's length; ch-go asks for complete results only.
	tail := append([]byte{native.StageComplete, 0, byte(len(text))}, text...)
	at := bytes.LastIndex(b.Buf, tail)
	b.Buf[at] = 1
	return append(b.Buf, native.ClientData, 0, 0, 0, 0)
}

// TestNoPeers: a server without a cluster takes nothing that servers send each other, whoever sends it and whatever
// it calls itself. It knows no other servers either.
func TestNoPeers(t *testing.T) {
	status := []byte{native.ClientTablesStatus, 1, 6}
	status = append(append(status, "system"...), 3)
	status = append(status, "one"...)
	local := peerQuery("SELECT 1")
	// The interface of a library stands in the place of TCP.
	local[slices.Index(local[5:], 1)+5] = 6
	for name, sent := range map[string][]byte{
		"tables' status": status, "states": peerQuery("SELECT sum(number) FROM numbers(3)"), "local": local,
		"scalar": {native.ClientScalar, 0, 0, 0, 0},
	} {
		for user, key := range map[string]string{"analyst": analystPassword, "default": password} {
			w := dialRaw(t)
			w.client = native.PeerName
			w = w.login(user, key)
			w.send(sent)
			all := string(w.closed())
			if !strings.Contains(all, "DB::Exception") || strings.Contains(all, "AggregateFunction") {
				t.Errorf("%s of %s is answered by %q", name, user, all)
			}
		}
	}
	if n := count(t, client(t), "SELECT count() FROM system.clusters"); n != 0 {
		t.Errorf("%d shards of clusters are known", n)
	}
}

func TestClusterConfig(t *testing.T) {
	for _, c := range []struct {
		cluster clickhouse.Cluster
		client  string
		from    string
		valid   bool
		admits  bool
	}{
		{clickhouse.Cluster{Name: "main", Shards: []string{"127.0.0.1:9000", "127.0.0.2:9000"}}, native.PeerName, "127.0.0.2", true, true},
		{clickhouse.Cluster{Name: "main", Shards: []string{"127.0.0.1:9000"}}, native.PeerName, "127.0.0.2", true, false},
		{clickhouse.Cluster{Name: "main", Shards: []string{"127.0.0.1:9000"}}, "clickhouse-go", "127.0.0.1", true, false},
		{clickhouse.Cluster{Name: "main"}, native.PeerName, "127.0.0.1", false, false},
		{clickhouse.Cluster{Name: "a.b", Shards: []string{"127.0.0.1:9000"}}, "", "127.0.0.1", false, false},
		{clickhouse.Cluster{Name: "main", Shards: []string{"localhost:9000"}}, "", "127.0.0.1", false, false},
		{clickhouse.Cluster{Name: "main", Shards: []string{"127.0.0.1:0"}}, "", "127.0.0.1", false, false},
		{clickhouse.Cluster{Name: "main", Shards: []string{"127.0.0.1"}}, "", "127.0.0.1", false, false},
	} {
		_, err := clickhouse.New(clickhouse.Config{Library: "x", Path: "x", Database: "d", Cluster: &c.cluster}, nil)
		if (err == nil) != c.valid {
			t.Errorf("%+v: %v", c.cluster, err)
		}
		from := &net.TCPAddr{IP: net.ParseIP(c.from), Port: 9000}
		if got := c.cluster.Admits(c.client, from); got != c.admits {
			t.Errorf("%+v admits %q from %s: %v", c.cluster, c.client, c.from, got)
		}
	}
}
