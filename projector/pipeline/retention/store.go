package retention

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/dbpool"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

//go:embed sql/*.sql
var files embed.FS

// store is what the keeper asks of the database.
type store struct {
	conn     driver.Conn
	topology schema.Topology
	atOnce   uint64 // sumAtOnce
}

type params map[string]any

// text returns a query and its parameters.
func (s *store) text(name string, p params) (string, []any, error) {
	text, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		return "", nil, err
	}
	args := make([]any, 0, len(p))
	for _, key := range slices.Sorted(maps.Keys(p)) {
		args = append(args, clickhouse.Named(key, p[key]))
	}
	return strings.ReplaceAll(schema.WithIdentities(string(text)), "@parts", s.topology.System("parts")), args, nil
}

func (s *store) exec(ctx context.Context, name string, p params) error {
	text, args, err := s.text(name, p)
	if err == nil {
		err = s.conn.Exec(ctx, text, args...)
	}
	if err != nil {
		return fmt.Errorf("query %s.sql %v: %w", name, p, err)
	}
	return nil
}

func (s *store) each(ctx context.Context, name string, p params, scan func(driver.Rows) error) error {
	text, args, err := s.text(name, p)
	if err == nil {
		err = dbpool.EachRow(ctx, s.conn, text, args, scan)
	}
	if err != nil {
		return fmt.Errorf("query %s.sql %v: %w", name, p, err)
	}
	return nil
}

// partition is a month of a table.
type partition struct {
	month month
	rows  uint64
}

// partitions lists the months of a table that have rows.
func (s *store) partitions(ctx context.Context, table string) (all []partition, err error) {
	err = s.each(ctx, "partitions", params{"table": s.topology.Local(table)}, func(r driver.Rows) error {
		var m uint32
		var p partition
		err := r.Scan(&m, &p.rows)
		p.month = month(m)
		if p.rows > 0 {
			all = append(all, p)
		}
		return err
	})
	return all, err
}

// span is a month and a range of sequences.
func span(m month, after, upto uint64) params {
	return params{"from": m.start(), "to": m.add(1).start(), "after": after, "upto": upto}
}

// remaining counts the events of a range.
func (s *store) remaining(ctx context.Context, m month, after, upto uint64) (n uint64, err error) {
	err = s.each(ctx, "remaining", span(m, after, upto), func(r driver.Rows) error { return r.Scan(&n) })
	return n, err
}

// sumAtOnce is up to how many events are summed up by one query. More are by
// a query for each day, so that memory is bounded by a day's articles.
const sumAtOnce = 500_000

// sumDays writes the daily summaries of a retirement.
func (s *store) sumDays(ctx context.Context, m month, p plan, events uint64) error {
	sum := func(from, to time.Time) error {
		return s.exec(ctx, "daily", params{"from": from, "to": to, "after": p.After, "upto": p.Upto})
	}
	if events <= s.atOnce {
		return sum(m.start(), m.add(1).start())
	}
	return m.days(sum)
}

// sumMonth writes the monthly summaries of a retirement from the daily ones.
func (s *store) sumMonth(ctx context.Context, m month, p plan) error {
	return s.exec(ctx, "monthly", params{"from": m.start(), "to": m.add(1).start(), "upto": p.Upto})
}

// keepIdentities writes the identities of a retirement's events.
func (s *store) keepIdentities(ctx context.Context, m month, p plan) error {
	return s.exec(ctx, "identities", span(m, p.After, p.Upto))
}

// summed is how many events a retirement holds.
type summed struct{ daily, monthly, identities uint64 }

func (s *store) summed(ctx context.Context, m month, p plan) (n summed, err error) {
	err = s.each(ctx, "summed", span(m, p.After, p.Upto), func(r driver.Rows) error {
		return r.Scan(&n.daily, &n.monthly, &n.identities)
	})
	return n, err
}

// commit makes the summaries count instead of the events.
func (s *store) commit(ctx context.Context, m month, p plan, events uint64) error {
	return s.exec(ctx, "commit", params{"month": uint32(m), "upto": p.Upto, "events": events})
}

// retired returns up to which sequence each month has been committed, at least
// so long ago.
func (s *store) retired(ctx context.Context, ago time.Duration) (map[month]uint64, error) {
	all := map[month]uint64{}
	err := s.each(ctx, "retired", params{"age": int64(ago.Seconds())}, func(r driver.Rows) error {
		var m uint32
		var upto uint64
		err := r.Scan(&m, &upto)
		all[month(m)] = upto
		return err
	})
	return all, err
}

// remove takes the events of a month up to a sequence out of the table: whole
// parts where it can, which costs nothing, and then what is left.
func (s *store) remove(ctx context.Context, m month, upto uint64) error {
	local, id := s.topology.Local("events"), fmt.Sprint(uint32(m))
	if s.topology.Cluster == "" {
		parts, err := s.wholeParts(ctx, m, upto)
		if err != nil {
			return err
		}
		for _, part := range parts {
			// One that has been merged into another is no longer there.
			_ = s.conn.Exec(ctx, fmt.Sprintf("ALTER TABLE %s DROP PART '%s'", local, part))
		}
	}
	left, err := s.remaining(ctx, m, 0, upto)
	if err != nil || left == 0 {
		return err
	}
	err = s.conn.Exec(ctx,
		fmt.Sprintf("ALTER TABLE %s%s DELETE IN PARTITION ID '%s' WHERE seq <= %d SETTINGS mutations_sync = 2", local,
			s.topology.OnCluster(), id, upto))
	if err != nil {
		return fmt.Errorf("remove events of %d up to %d: %w", m, upto, err)
	}
	return nil
}

// wholeParts lists the parts of a month that hold nothing beyond a sequence. A
// part never changes: what is written later is another part.
func (s *store) wholeParts(ctx context.Context, m month, upto uint64) (names []string, err error) {
	err = s.each(ctx, "parts", params{"month": fmt.Sprint(uint32(m))}, func(r driver.Rows) error {
		var name string
		var last uint64
		err := r.Scan(&name, &last)
		if last <= upto {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// dropDaily drops a month of the daily summaries.
func (s *store) dropDaily(ctx context.Context, m month) error {
	err := s.conn.Exec(ctx, fmt.Sprintf("ALTER TABLE %s%s DROP PARTITION ID '%d'", s.topology.Local("events_daily"),
		s.topology.OnCluster(), m))
	if err != nil {
		return fmt.Errorf("drop daily summaries of %d: %w", m, err)
	}
	return nil
}
