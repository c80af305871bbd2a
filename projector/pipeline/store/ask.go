package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

var (
	//go:embed sql/landed.sql
	sqlLanded string
	//go:embed sql/identities.sql
	sqlIdentities string
	//go:embed sql/buckets.sql
	sqlBuckets string
	//go:embed sql/rows.sql
	sqlRows string
	//go:embed sql/folded.sql
	sqlFolded string
	//go:embed sql/newest.sql
	sqlNewest string
	//go:embed sql/stored.sql
	sqlStored string
)

// repair asks which rows of an insert have landed and inserts the others
// (invariant 5). A server that is killed between noting a token and keeping
// the rows would otherwise drop them for good.
func (s *Store) repair(ctx context.Context, in Insert, rows *schema.EventBlock) error {
	for attempt, certain := 1, false; ; attempt++ {
		missing, err := s.missing(ctx, in, rows)
		if err != nil || missing == nil {
			return err
		}
		if certain {
			return fmt.Errorf("insert (%d, %d]: %d rows are not to be seen after an insert that was confirmed", in.From,
				in.To, missing.Rows())
		}
		s.log.Warn("rows of a confirmed insert are missing, inserting them again", "from", in.From, "to", in.To,
			"rows", missing.Rows())
		token := fmt.Sprintf("%s/repair/%d/%d", in.token("events"), missing.Rows(), attempt)
		if certain, err = s.insertMissing(ctx, in, missing, token, false); err != nil {
			return err
		}
	}
}

// missing returns those rows of an insert that are not in the table, or nil.
func (s *Store) missing(ctx context.Context, in Insert, rows *schema.EventBlock) (*schema.EventBlock, error) {
	var landed []uint64
	_, err := s.retry(ctx, "ask what has landed", func(ctx context.Context) (err error) {
		landed, err = s.landed(ctx, in, rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	left := rows.Select(func(row int) bool {
		_, ok := slices.BinarySearch(landed, rows.Seq(row))
		return !ok
	})
	if left.Rows() == 0 {
		return nil, nil
	}
	return left, nil
}

// landed returns, in order, the sequences of an insert that are in the table.
func (s *Store) landed(ctx context.Context, in Insert, rows *schema.EventBlock) ([]uint64, error) {
	first, last := rows.Bounds()
	r, err := s.conn.Query(ctx, sqlLanded, first, last, in.From, in.To, in.Group.Of, in.Group.Number)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var seqs []uint64
	for r.Next() {
		var seq uint64
		if err := r.Scan(&seq); err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, r.Err()
}

// fillTimeout bounds reading the identities of all events there are, at the pace
// of whoever takes them. A connection that is lost meanwhile ends by itself.
const fillTimeout = 24 * time.Hour

// Counted is an identity of an event that has been counted.
type Counted struct {
	Identity    event.Identity
	Fingerprint event.Fingerprint // 0: not known
	Seq         uint64
	// Alias says that the event has another identity of its own, and may have
	// been published under this one as well.
	Alias bool
}

// Identities calls add for every event of a group in the sequences (from, to],
// for a key store that has lost or not yet seen them. Retired events are among
// them, some of them twice.
func (s *Store) Identities(ctx context.Context, g slots.Group, from, to uint64, add func(Counted) error) error {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	r, err := s.conn.Query(ctx, schema.WithIdentities(sqlIdentities), clickhouse.Named("from", from),
		clickhouse.Named("to", to),
		clickhouse.Named("of", g.Of), clickhouse.Named("number", g.Number))
	if err != nil {
		return fmt.Errorf("read identities of (%d, %d]: %w", from, to, err)
	}
	defer r.Close()
	for r.Next() {
		var id string
		var c Counted
		if err := r.Scan(&id, &c.Seq, (*uint64)(&c.Fingerprint), &c.Alias); err != nil {
			return fmt.Errorf("read identities of (%d, %d]: %w", from, to, err)
		}
		c.Identity = event.Identity([]byte(id))
		if err := add(c); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("read identities of (%d, %d]: %w", from, to, err)
	}
	return nil
}

// Stored returns how many of a group's events up to a sequence are in the tables.
func (s *Store) Stored(ctx context.Context, g slots.Group, upto uint64) (n uint64, err error) {
	row := s.conn.QueryRow(ctx, sqlStored, clickhouse.Named("upto", upto), clickhouse.Named("of", g.Of),
		clickhouse.Named("number", g.Number))
	if err := row.Scan(&n); err != nil {
		return 0, fmt.Errorf("count the stored events up to %d: %w", upto, err)
	}
	return n, nil
}

// Buckets calls add for every bucket that a group has rows in.
func (s *Store) Buckets(ctx context.Context, group uint32, add func(funnel.Width, uint32)) error {
	r, err := s.conn.Query(ctx, sqlBuckets, group)
	if err != nil {
		return fmt.Errorf("read funnel buckets: %w", err)
	}
	defer r.Close()
	for r.Next() {
		var width, bucket uint32
		if err := r.Scan(&width, &bucket); err != nil {
			return fmt.Errorf("read funnel buckets: %w", err)
		}
		add(funnel.Width(width), bucket)
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("read funnel buckets: %w", err)
	}
	return nil
}

// Folded is what the tables know of a group's stream.
type Folded struct {
	Upto uint64 // the end of the last batch with a row in the funnel; 0: no row
	// Seq is the sequence of an event that is among the last of the group's
	// slots, whichever group has folded it, and Received when the stream received
	// it; 0: none is.
	Seq      uint64
	Received time.Time
}

// lookBack is how many sequences before the last row of the funnel the last
// event is looked for: by its index, that table finds it quickly.
const lookBack = 100_000

// Folded asks how far a group is folded by what is in the tables.
func (s *Store) Folded(ctx context.Context, g slots.Group) (f Folded, err error) {
	if err := s.conn.QueryRow(ctx, sqlFolded, uint32(funnel.Day), g.ID).Scan(&f.Upto); err != nil {
		return f, fmt.Errorf("read how far the funnel is folded: %w", err)
	}
	after := max(f.Upto, lookBack) - lookBack
	err = s.conn.QueryRow(ctx, sqlNewest, max(after, g.After), g.Of, g.Number).Scan(&f.Seq, &f.Received)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return f, fmt.Errorf("read the newest event: %w", err)
	}
	return f, nil
}

// Row is the state of a funnel row.
type Row struct {
	Key      funnel.Key
	Events   uint64
	Articles funnel.Set
	Seq      uint64
}

// Rows calls add for every row that a group has in the buckets of a width.
func (s *Store) Rows(ctx context.Context, group uint32, width funnel.Width, buckets []uint32, add func(*Row)) error {
	r, err := s.conn.Query(ctx, sqlRows, uint32(width), buckets, group)
	if err != nil {
		return fmt.Errorf("read funnel rows: %w", err)
	}
	defer r.Close()
	for r.Next() {
		row := &Row{Key: funnel.Key{Width: width}}
		k, set := &row.Key, ""
		err := r.Scan(&k.Bucket, &k.Source, &k.Stage, &k.Recent, &row.Events, &set, &row.Seq)
		if err != nil {
			return fmt.Errorf("read funnel rows: %w", err)
		}
		if err := row.Articles.UnmarshalBinary([]byte(set)); err != nil {
			return fmt.Errorf("read funnel row %+v: %w", row.Key, err)
		}
		add(row)
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("read funnel rows: %w", err)
	}
	return nil
}

// Retry repeats a read until it succeeds or ctx ends.
func (s *Store) Retry(ctx context.Context, what string, do func(context.Context) error) error {
	_, err := s.retry(ctx, what, do)
	return err
}
