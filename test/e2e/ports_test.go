package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
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

// given holds the addresses that freePort has returned.
var given sync.Map

// freePort returns an address that nobody listens on. It lies below the range
// that systems take the ports of outgoing connections from, so that none of
// those is in the way when the server comes back after a restart.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(17_000))
		if _, before := given.LoadOrStore(addr, true); before {
			continue
		}
		if _, err := port.Try(addr); err == nil {
			return addr
		}
	}
	t.Fatal("no free port found")
	return ""
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
