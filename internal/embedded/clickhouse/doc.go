// Package clickhouse serves the ClickHouse engine, loaded as a library, behind
// ClickHouse's own protocols.
package clickhouse
