package dbpool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/retry"
)

// Readers is the role whose members have the limits.
const Readers = "millrace_reader"

// WatchdogConfig has the limits. The zero value of a field stands for its default. Each session
// gets Grace more, in which the settings of its role end it with a clearer error.
type WatchdogConfig struct {
	Statement   time.Duration // from its begin to its end, results included; default 60 s
	Idle        time.Duration // between two statements of a transaction; default 60 s
	Transaction time.Duration // since it holds back vacuum; default 5 min
	// Writing is for a transaction that has a transaction id, as one that writes: readers
	// of transitions wait for it; default 5 s.
	Writing time.Duration
	Session time.Duration // without a statement; default 10 min
	Grace   time.Duration // default 5 s
	Every   time.Duration // between two looks; default 2 s
}

func (c WatchdogConfig) withDefaults() WatchdogConfig {
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{
		{&c.Statement, time.Minute},
		{&c.Idle, time.Minute},
		{&c.Transaction, 5 * time.Minute},
		{&c.Writing, 5 * time.Second},
		{&c.Session, 10 * time.Minute},
		{&c.Grace, 5 * time.Second},
		{&c.Every, 2 * time.Second},
	} {
		if *d.of == 0 {
			*d.of = d.value
		}
	}
	return c
}

// Watchdog ends sessions that are beyond a limit.
//
// It holds the sessions of logins that only read to their limits in
// Postgres. Postgres lets every session change its statement_timeout and the like: the
// settings of a role are defaults. So Millrace looks at all sessions every two seconds, and
// ends those that are beyond a limit. A session cannot prevent that.
//
// It looks at the sessions of its own database whose login is a member of the role
// millrace_reader, and not of Millrace's own. Superusers count as members of every role, so
// it leaves them alone. It needs to see what others do (pg_read_all_stats) and to end it
// (pg_signal_backend); the embedded Postgres gives it both by making Millrace's role a member
// of the login analyst.
type Watchdog struct {
	cfg   WatchdogConfig
	pool  *pgxpool.Pool
	log   *slog.Logger
	ended *prometheus.CounterVec
}

// NewWatchdog checks its arguments and starts nothing.
func NewWatchdog(cfg WatchdogConfig, pool *pgxpool.Pool, reg prometheus.Registerer, log *slog.Logger) (*Watchdog, error) {
	if pool == nil || reg == nil || log == nil {
		return nil, errors.New("limits of readers: a pool, a metrics registry and a logger are needed")
	}
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "millrace_postgres_sessions_ended_total",
		Help: "Sessions of logins that only read that were ended because they were beyond a limit.",
	}, []string{"limit"})
	if err := reg.Register(ended); err != nil {
		return nil, fmt.Errorf("register metrics of the limits of readers: %w", err)
	}
	return &Watchdog{cfg.withDefaults(), pool, log.With("component", "readlimits"), ended}, nil
}

// Run looks until ctx ends, and returns nil.
func (w *Watchdog) Run(ctx context.Context) error {
	return retry.Every(ctx, w.cfg.Every, w.look,
		retry.Warn(w.log, "the limits of logins that only read are not enforced, trying again"))
}

// beyond finds the sessions that are beyond a limit. The clock is that of Postgres.
const beyond = `
SELECT pid, backend_start, usename::text, coalesce(client_addr::text, ''), exceeded
FROM (
    SELECT a.*, CASE
        WHEN state IS NULL AND backend_start < clock_timestamp() - interval '1 minute' THEN 'unseen'
        WHEN backend_xid IS NOT NULL AND xact_start < clock_timestamp() - $4::interval THEN 'writing'
        WHEN xact_start < clock_timestamp() - $3::interval THEN 'transaction'
        WHEN state IN ('active', 'fastpath function call') AND query_start < clock_timestamp() - $1::interval THEN 'statement'
        WHEN state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - $2::interval THEN 'idle in transaction'
        WHEN state = 'idle' AND state_change < clock_timestamp() - $5::interval THEN 'session'
    END AS exceeded
    FROM pg_stat_activity AS a
    WHERE backend_type = 'client backend' AND datname = current_database() AND usesysid IS NOT NULL
) AS a
WHERE exceeded IS NOT NULL AND pg_has_role(usesysid, (SELECT oid FROM pg_roles WHERE rolname = '` + Readers + `'), 'MEMBER')
    AND NOT pg_has_role(usesysid, (SELECT oid FROM pg_roles WHERE rolname = current_user), 'MEMBER')`

type session struct {
	PID      int32
	Started  time.Time
	Login    string
	Address  string
	Exceeded string
}

// look ends what is beyond a limit now.
func (w *Watchdog) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c := w.cfg
	rows, _ := w.pool.Query(ctx, beyond, c.Statement+c.Grace, c.Idle+c.Grace, c.Transaction+c.Grace, c.Writing,
		c.Session+c.Grace)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[session])
	if err != nil {
		return fmt.Errorf("look at sessions: %w", err)
	}
	for _, s := range all {
		err = errors.Join(err, w.end(ctx, s))
	}
	return err
}

func (w *Watchdog) end(ctx context.Context, s session) error {
	if s.Exceeded == "unseen" {
		return fmt.Errorf("what the login %s does is hidden: grant pg_read_all_stats and pg_signal_backend to the role "+
			"of Millrace", s.Login)
	}
	tag, err := w.pool.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND "+
		"backend_start = $2", s.PID, s.Started)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == "42501": // insufficient privilege
		return fmt.Errorf("end a session of the login %s: %w: grant pg_signal_backend to the role of Millrace", s.Login, err)
	case err != nil:
		return fmt.Errorf("end a session of the login %s: %w", s.Login, err)
	case tag.RowsAffected() > 0:
		w.ended.WithLabelValues(s.Exceeded).Inc()
		w.log.Warn("a session was ended because it was beyond a limit", "login", s.Login, "address", s.Address,
			"limit", s.Exceeded)
	}
	return nil
}
