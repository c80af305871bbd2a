package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/retry"
	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// tables are those of Millrace in one database server. The process starts without them, and the parts that need them
// wait.
type tables struct {
	server string
	update func(context.Context) error // brings them up to date, or tells whether somebody else has
	away   func(error) bool            // the server, or what somebody else makes there, may come later
	log    *slog.Logger
	ready  chan struct{} // closed when they are up to date
	needed []string      // systems whose parts wait for them
}

// awaitTables gives the supervisor a part that tries until the tables are up to date.
func (n *node) awaitTables(server string, update func(context.Context) error, away func(error) bool) *tables {
	t := &tables{server: server, update: update, away: away, log: n.log, ready: make(chan struct{})}
	n.tables = append(n.tables, t)
	n.supervisor.add(strings.ToLower(server), part{"tables", t.prepare})
	return t
}

// firstWait is how long a process waits for a database server before it starts without.
const firstWait = 30 * time.Second

// prepareFirst tries once, before the process starts. That the server is away is no error: what it refuses is, such as
// a login.
func (t *tables) prepareFirst(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	err := t.update(attempt)
	switch {
	case err == nil:
		close(t.ready)
	case ctx.Err() != nil || !t.away(err):
		return err
	default:
		t.log.Warn("waiting for the tables in "+t.server+": until they are there, the systems that need them are off",
			"error", err)
	}
	return nil
}

// tablesAgain is how often the tables are looked for.
var tablesAgain = retry.Backoff{First: time.Second, Most: 5 * time.Second}

// prepare tries until the tables are up to date, and then waits until ctx ends.
func (t *tables) prepare(ctx context.Context) error {
	if !t.areReady() {
		err := tablesAgain.Do(ctx, func() error { return t.update(ctx) }, func(err error, _ time.Duration) {
			t.log.Warn("waiting for the tables in "+t.server, "error", err)
		})
		if err != nil {
			return nil // ctx has ended
		}
		t.log.Info("the tables are there", "server", t.server)
		close(t.ready)
	}
	<-ctx.Done()
	return nil
}

func (t *tables) areReady() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// gate has parts of a system begin when the tables are there.
func (t *tables) gate(system string, parts []part) {
	if !slices.Contains(t.needed, system) {
		t.needed = append(t.needed, system)
	}
	for i, p := range parts {
		parts[i].run = func(ctx context.Context) error {
			select {
			case <-t.ready:
				return p.run(ctx)
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// off returns the systems that wait.
func (t *tables) off() (off []httpapi.Off) {
	if t.areReady() {
		return nil
	}
	for _, system := range t.needed {
		off = append(off, httpapi.Off{System: system, Reason: "waits for its tables in " + t.server})
	}
	return off
}

// err is why a process whose parts wait for their tables is not ready.
func (t *tables) err() error {
	if t.areReady() {
		return nil
	}
	return fmt.Errorf("the tables in %s are not there yet", t.server)
}

// updateClickHouse brings the tables in ClickHouse up to date, or tells whether somebody else has.
func (n *node) updateClickHouse(ctx context.Context) error {
	if !n.awaits {
		return migrateClickHouse(ctx, n.clickhouse, n.topology)
	}
	db := clickhouse.OpenDB(n.clickhouse)
	defer db.Close()
	return n.topology.Check(ctx, db)
}

// migrateClickHouse brings the tables in ClickHouse up to date.
func migrateClickHouse(ctx context.Context, to *clickhouse.Options, topology schema.Topology) error {
	db := clickhouse.OpenDB(to)
	defer db.Close()
	return topology.Migrate(ctx, db)
}

// clickhouseAway tells whether the server cannot be used now, or its tables are not there yet, and not that it has
// refused what it was asked for.
func clickhouseAway(err error) bool {
	return dbpool.Passes(err) && !errors.Is(err, schema.ErrNewerSchema)
}
