package e2e

import (
	"testing"

	"github.com/millrace-io/millrace/internal/embedded/port"
)

// ports are where a server listens. They stay the same over restarts.
type ports struct {
	HTTP, NATS, ClickHouse, ClickHouseHTTP, Postgres string
}

func freePorts(t testing.TB) ports {
	return ports{freePort(t), freePort(t), freePort(t), freePort(t), freePort(t)}
}

// freePort returns an address that nobody listens on, and that is given to
// nobody else.
func freePort(t testing.TB) string {
	t.Helper()
	free, err := port.Reserve(1)
	if err != nil {
		t.Fatal(err)
	}
	return free[0]
}

func (p ports) env() []string {
	return []string{
		"MILLRACE_HTTP_ADDR=" + p.HTTP,
		"MILLRACE_NATS_LISTEN=" + p.NATS,
		"MILLRACE_CLICKHOUSE_LISTEN=" + p.ClickHouse,
		"MILLRACE_CLICKHOUSE_HTTP=" + p.ClickHouseHTTP,
		"MILLRACE_POSTGRES_LISTEN=" + p.Postgres,
	}
}
