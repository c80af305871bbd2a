package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/backup/postgres"
	"github.com/millrace-io/millrace/internal/backup/set"
	"github.com/millrace-io/millrace/schemas/stream"

	tables "github.com/millrace-io/millrace/internal/backup/clickhouse"
	chschema "github.com/millrace-io/millrace/schemas/clickhouse"
	pgschema "github.com/millrace-io/millrace/schemas/postgres"
)

// Open opens a set to restore it, and returns an error that names what is wrong with it, or with its bases, which are
// looked for in places. It has read all of it then.
func Open(
	ctx context.Context, target set.Target, places func(set.Base) ([]set.Target, error),
) (*set.Reader, error) {
	r, err := set.Open(ctx, target, places)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkVersions(r, tables.Store, chschema.Versions),
		checkVersions(r, postgres.Store, pgschema.Versions)); err != nil {
		return nil, err
	}
	return r, r.Verify(ctx)
}

// checkVersions returns an error unless this release makes the tables that a store of the set had.
func checkVersions(r *set.Reader, store string, own func() ([]int64, error)) error {
	var info struct{ Versions []int64 }
	there, err := r.Info(store, &info)
	if err != nil || !there {
		return err
	}
	versions, err := own()
	if err == nil && !slices.Equal(versions, info.Versions) {
		err = fmt.Errorf("the backup was made by millrace %s, whose tables in %s are not those of this release: restore it "+
			"with that release, and upgrade then", r.Millrace, store)
	}
	return err
}

// HasPostgres tells whether a set has tables of Postgres.
func HasPostgres(r *set.Reader) bool { return r.Has("postgres/item.copy.zst") }

// Restore makes an installation of a set, on servers that have nothing of one. Streams have so many replicas. A restore
// that was interrupted is begun again by the next one; until one has ended, no process of Millrace works there.
func Restore(ctx context.Context, in Installation, r *set.Reader, replicas int) error {
	s, err := in.restoration(r)
	if err != nil {
		return err
	}
	defer s.db.Close()
	m, filled, err := in.claimNATS(ctx, s.js, r.Sum, &s.nats, func() error { return s.checkOthers(ctx) }, replicas)
	if err != nil {
		return err
	}
	if !filled {
		if err := s.fill(ctx, r, replicas); err != nil {
			return err
		}
		m.Filled = true
		if err := m.put(ctx); err != nil {
			return err
		}
	}
	if err := s.db.Release(ctx); err != nil {
		return err
	}
	if s.hasRows {
		if err := postgres.Release(ctx, in.Postgres); err != nil {
			return err
		}
	}
	return removeMark(ctx, s.js)
}

// restoration is what a set has, and where it goes.
type restoration struct {
	Installation
	js      jetstream.JetStream
	db      *tables.Database
	nats    natsInfo
	columns tables.Info
	rows    postgres.Info
	hasRows bool
}

// restoration reads what the stores of a set have noted. The caller closes its database.
func (in Installation) restoration(r *set.Reader) (*restoration, error) {
	s := &restoration{Installation: in}
	hasNATS, err := r.Info(natsStore, &s.nats)
	hasColumns, err2 := r.Info(tables.Store, &s.columns)
	hasRows, err3 := r.Info(postgres.Store, &s.rows)
	js, err4 := jetstream.New(in.NATS)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return nil, err
	}
	switch {
	case !hasNATS || !hasColumns:
		return nil, fmt.Errorf("%w: its manifest has no streams or no tables", set.ErrDamaged)
	case hasRows && in.Postgres == "":
		return nil, errors.New("the backup has tables of Postgres: set MILLRACE_POSTGRES_DSN")
	}
	s.js, s.hasRows, s.db = js, hasRows, tables.Open(in.ClickHouse)
	return s, nil
}

// checkOthers returns an error where ClickHouse or Postgres has something of an installation.
func (s *restoration) checkOthers(ctx context.Context) error {
	err := s.db.Check(ctx)
	if err == nil && s.hasRows {
		err = postgres.Check(ctx, s.Postgres)
	}
	return err
}

// fill restores everything. The marks stay.
func (s *restoration) fill(ctx context.Context, r *set.Reader, replicas int) error {
	if err := s.db.Prepare(ctx); err != nil {
		return err
	}
	if s.hasRows {
		if err := s.whilePostgresAnswers(ctx, func(ctx context.Context) error {
			return postgres.Prepare(ctx, s.Postgres)
		}); err != nil {
			return err
		}
	}
	if err := s.restoreTables(ctx, s.db, r, s.columns); err != nil {
		return err
	}
	if s.hasRows {
		s.Log.Info("restoring Postgres", "tables", len(s.rows.Tables))
		if err := s.whilePostgresAnswers(ctx, func(ctx context.Context) error {
			left, err := postgres.Restore(ctx, s.Postgres, s.rows, func(name string, read func(io.Reader) error) error {
				return r.Read(ctx, name, read)
			})
			if err == nil {
				s.leaveOut("Postgres", left...)
			}
			return err
		}); err != nil {
			return err
		}
	}
	s.Log.Info("restoring NATS", "streams", len(s.nats.Streams))
	return s.restoreStreams(ctx, r, &s.nats, replicas)
}

// restoreTables reads the rows of a set into empty tables.
func (in Installation) restoreTables(
	ctx context.Context, db *tables.Database, r *set.Reader, columns tables.Info,
) error {
	made, err := db.Tables(ctx)
	if err != nil {
		return err
	}
	in.Log.Info("restoring ClickHouse", "files", len(columns.Parts))
	for _, p := range columns.Parts {
		if !slices.Contains(made, p.Table) {
			in.leaveOut("ClickHouse", p.Table)
			continue
		}
		if err := r.Read(ctx, p.File, func(from io.Reader) error { return db.Restore(ctx, p, from) }); err != nil {
			return err
		}
	}
	return nil
}

// leaveOut tells of tables that no migration makes. Their rows are in the set.
func (in Installation) leaveOut(store string, tables ...string) {
	for _, table := range tables {
		in.Log.Warn("the backup has a table that is not Millrace's; make it and read its file yourself", "store", store,
			"table", table)
	}
}

// restoreStreams restores streams and buckets. That of checkpoints is last: without it, nobody folds.
func (in Installation) restoreStreams(ctx context.Context, r *set.Reader, nats *natsInfo, replicas int) error {
	const last = "KV_" + stream.Checkpoints
	names := slices.Sorted(maps.Keys(nats.Streams))
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case a == last:
			return 1
		case b == last:
			return -1
		}
		return 0
	})
	for _, name := range names {
		if err := r.Read(ctx, streamFile(name), func(from io.Reader) error {
			return RestoreStream(ctx, in.NATS, nats.Streams[name], replicas, from)
		}); err != nil {
			return err
		}
	}
	js, err := jetstream.New(in.NATS)
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return fmt.Errorf("open the bucket %s: %w", stream.Checkpoints, err)
	}
	for key, value := range nats.Records {
		if _, err := kv.Put(ctx, key, compact(value)); err != nil {
			return fmt.Errorf("restore the checkpoint %s: %w", key, err)
		}
	}
	return nil
}

// Events is how many events a set has in the tables.
func Events(m *set.Manifest) (n int64) {
	var info tables.Info
	if json.Unmarshal(m.Stores[tables.Store], &info) != nil {
		return 0
	}
	for _, p := range info.Parts {
		if p.Table == eventsTable {
			n += p.Rows
		}
	}
	return n
}
