package embeddedtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Reads is a connection that counts what it reads of some tables.
type Reads struct {
	Pool   *pgxpool.Pool // of that connection alone
	t      testing.TB
	tables []string
}

// CountReads connects to the database of a pool once more. The mode is that of plan_cache_mode: whether plans are for the
// parameters of a statement or for any.
func CountReads(t testing.TB, of *pgxpool.Pool, mode string, tables ...string) *Reads {
	t.Helper()
	cfg := of.Config() // a copy
	cfg.MaxConns = 1   // what a connection has read is told by itself
	cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = mode
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &Reads{pool, t, tables}
}

// Most makes sure that what is done reads so many at most, entries of indexes and rows of tables without them together.
func (r *Reads) Most(what string, most int, do func(context.Context) error) {
	r.t.Helper()
	before := r.count()
	if err := do(r.t.Context()); err != nil {
		r.t.Fatal(what, err)
	}
	n := r.count() - before
	r.t.Logf("%s: %d", what, n)
	if n > most {
		r.t.Errorf("%s has read %d rows, want %d at most", what, n, most)
	}
}

func (r *Reads) count() (n int) {
	r.t.Helper()
	_, err := r.Pool.Exec(r.t.Context(), "SELECT pg_stat_force_next_flush()")
	if err == nil {
		err = r.Pool.QueryRow(r.t.Context(), `SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = ANY ($1))
			+ (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname = ANY ($1))`, r.tables).Scan(&n)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// KeepRows has a transaction see, until the test ends, all rows that there are now, as a backup or an export does: those
// that are deleted meanwhile stay in their indexes.
func KeepRows(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err == nil {
		_, err = tx.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = 0; SELECT now()")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
}
