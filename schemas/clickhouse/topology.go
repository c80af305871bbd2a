package clickhouse

import "fmt"

// Topology says where tables are. The zero value is a single server.
type Topology struct {
	// Cluster is the name of a ClickHouse cluster whose servers hold the
	// tables together. A table is then a Distributed one over Replicated
	// tables, one on each server, that are called Local.
	Cluster string
	// SingleCopies has each shard keep its rows once, in tables that are not
	// Replicated and need no Keeper. It is for tests: such a cluster loses what
	// a server loses, and only the server that migrates has the table of versions.
	SingleCopies bool
}

// replicated tells whether the tables are Replicated ones.
func (t Topology) replicated() bool { return t.Cluster != "" && !t.SingleCopies }

// Local returns the name of the table that holds a server's own rows.
func (t Topology) Local(table string) string {
	if t.Cluster == "" {
		return table
	}
	return table + "_local"
}

// OnCluster is the clause of a statement that is for every server, with a
// space before it.
func (t Topology) OnCluster() string {
	if t.Cluster == "" {
		return ""
	}
	return fmt.Sprintf(" ON CLUSTER %s", quoteName(t.Cluster))
}

// System returns a system table of all shards together.
func (t Topology) System(table string) string {
	if t.Cluster == "" {
		return "system." + table
	}
	return fmt.Sprintf("cluster(%s, system.%s)", quoteText(t.Cluster), table)
}
