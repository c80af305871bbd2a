package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// TestAnalystMemory: analysts that allow themselves all memory get little more than their
// limit, each and together, and others go on.
func TestAnalystMemory(t *testing.T) {
	slowtest.Mark(t)
	s := newServer(t, Config{Dir: t.TempDir() + "/postgres"})
	defer run(t, s)()
	dsn := loginAs(t, s, Analyst, readFile(t, s.config.analystFile()))
	own, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close(context.Background()) }()

	ctx, stop := context.WithCancel(t.Context())
	var largest, together atomic.Int64
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			var all int64
			for _, session := range analystSessions(s.postmasterPID(t), map[int]bool{}) {
				largest.Store(max(largest.Load(), session.memory))
				all += session.memory
			}
			together.Store(max(together.Load(), all))
			<-tick.C
		}
	})
	var analysts sync.WaitGroup
	for _, sql := range []string{
		"SELECT count(*) FROM (SELECT i, array_agg(i) FROM generate_series(1, 30000000) AS i GROUP BY i) AS a",
		"SELECT length(repeat('x', 700000000))", "SELECT length(string_agg(repeat('x', 1000000), '')) FROM generate_series(1, 900)",
		"SELECT count(*) FROM (SELECT i FROM generate_series(1, 30000000) AS i ORDER BY i DESC) AS a",
	} {
		analysts.Go(func() {
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close(context.Background()) }()
			if _, err := conn.Exec(ctx, "SET work_mem = '2000GB'; SET hash_mem_multiplier = 1000"); err != nil {
				if _, err = conn.Exec(ctx, "SET work_mem = '2000MB'; SET hash_mem_multiplier = 1000"); err != nil {
					t.Error(err)
				}
			}
			_, err = conn.Exec(ctx, sql)
			t.Logf("%s: %v", sql, err)
			if err == nil {
				t.Errorf("it is done: %s", sql)
			}
		})
	}
	analysts.Wait()
	stop()
	watch.Wait()
	t.Logf("a session held %d MB at most, all of them %d MB", largest.Load()>>20, together.Load()>>20)
	if largest.Load() > 2*maxProcessMemory || together.Load() > 2*maxAnalystMemory {
		t.Error("that is too much")
	}
	if largest.Load() < 32<<20 {
		t.Error("nobody looked")
	}
	if _, err := own.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error("Millrace's own session:", err)
	}
}

// postmasterPID is the number of the server's first process.
func (s *Server) postmasterPID(t *testing.T) int {
	var pid int
	for _, line := range []string{readFile(t, s.config.data()+"/postmaster.pid")} {
		for _, c := range line {
			if c < '0' || c > '9' {
				break
			}
			pid = pid*10 + int(c-'0')
		}
	}
	return pid
}
