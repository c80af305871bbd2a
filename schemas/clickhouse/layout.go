package clickhouse

import "fmt"

// Layout says where tables are. The zero value is a single server.
type Layout struct {
	// Cluster is the name of a ClickHouse cluster whose servers hold the
	// tables together. A table is then a Distributed one over Replicated
	// tables, one on each server, that are called Local.
	Cluster string
}

// Local returns the name of the table that holds a server's own rows.
func (l Layout) Local(table string) string {
	if l.Cluster == "" {
		return table
	}
	return table + "_local"
}

// OnCluster is the clause of a statement that is for every server, with a
// space before it.
func (l Layout) OnCluster() string {
	if l.Cluster == "" {
		return ""
	}
	return fmt.Sprintf(" ON CLUSTER %s", quoteName(l.Cluster))
}

// System returns a system table of all shards together.
func (l Layout) System(table string) string {
	if l.Cluster == "" {
		return "system." + table
	}
	return fmt.Sprintf("cluster(%s, system.%s)", quoteText(l.Cluster), table)
}
