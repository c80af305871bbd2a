package history

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/dbpool"
)

// Source is a table that has been found in a database.
type Source struct {
	Table
	pool    *pgxpool.Pool
	found   resolved
	address string
}

// Row is a row of a table. Fields that the table has not are empty.
type Row struct {
	ID               string
	At               time.Time // UTC, as are all
	URL              string
	CanonicalURL     string
	SourceName       string
	Crawled, Indexed int64
	Ended            time.Time // zero: not known, or not yet
	fields           fields
}

// Span is a span of time: From is in it, Until is not. A zero From is the
// beginning.
type Span struct{ From, Until time.Time }

// epoch is the earliest time that an event can have.
var epoch = time.Unix(0, 0).UTC()

// bounds are in UTC: a column without a zone is compared as it is written.
func (s Span) bounds() (from, until time.Time) {
	if s.From.Before(epoch) {
		return epoch, s.Until.UTC()
	}
	return s.From.UTC(), s.Until.UTC()
}

// Cursor is a place in a table, by time and then by id.
type Cursor struct {
	At time.Time
	ID string // empty: before all rows of the time
}

// Open connects to the table's database and looks for its columns. Close it.
func Open(ctx context.Context, dsn string, table Table) (*Source, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// Its text holds the DSN, without the password.
		return nil, fmt.Errorf("%s: %w", table.Name, err)
	}
	cfg.MaxConns = 2
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	dbpool.ClampTimes(cfg, nil) // an execution may have ended at infinity
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", table.Name, err)
	}
	c := cfg.ConnConfig
	s := &Source{Table: table, pool: pool, address: fmt.Sprintf("%s:%d/%s/%s", c.Host, c.Port, c.Database, table.Name)}
	if err := s.find(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the connections.
func (s *Source) Close() { s.pool.Close() }

// Address names the table's place, without credentials.
func (s *Source) Address() string { return s.address }

// HasEnds tells whether it is known when executions ended.
func (s *Source) HasEnds() bool { return s.found.name["ended"] != "" }

func (s *Source) find(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, `
		SELECT attname::text, format_type(atttypid, atttypmod)
		FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`, s.Name)
	if err != nil {
		return fmt.Errorf("look for the columns of %s: %w", s.Name, err)
	}
	types := map[string]string{}
	var name, kind string
	if _, err := pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		types[name] = kind
		return nil
	}); err != nil {
		return fmt.Errorf("look for the columns of %s: %w", s.Name, err)
	}
	if len(types) == 0 {
		return fmt.Errorf("the database of the %s (%s) has no table %s", s.Service, s.address, s.Name)
	}
	s.found, err = s.resolve(types)
	return err
}

// Totals says what a span holds.
type Totals struct {
	Rows  int64
	Items map[string]int64 // by stage
}

// Count counts rows, and events by stage, of a span without some windows of
// time. A row without a time is in none.
func (s *Source) Count(ctx context.Context, span Span, without ...Span) (Totals, error) {
	at := s.found.name["at"]
	sums := "count(*), count(*)"
	if s.Counts() {
		sums = fmt.Sprintf("coalesce(sum(greatest(%s, 0)), 0)::bigint, coalesce(sum(greatest(%s, 0)), 0)::bigint",
			s.found.name["crawled"], s.found.name["indexed"])
	}
	query := fmt.Sprintf("SELECT count(*), %s FROM %s WHERE %s >= $1 AND %s < $2", sums, s.Name, at, at)
	from, until := span.bounds()
	args := []any{from, until}
	for _, w := range without {
		query += fmt.Sprintf(" AND NOT (%s >= $%d AND %s < $%d)", at, len(args)+1, at, len(args)+2)
		args = append(args, w.From.UTC(), w.Until.UTC())
	}
	var rows, first, second int64
	if err := s.pool.QueryRow(ctx, query, args...).Scan(&rows, &first, &second); err != nil {
		return Totals{}, fmt.Errorf("count %s: %w", s.Name, err)
	}
	t := Totals{Rows: rows, Items: map[string]int64{s.Stages[0]: first}}
	if len(s.Stages) > 1 {
		t.Items[s.Stages[1]] = second
	}
	return t, nil
}

// ItemsDuring sums the items of a stage of executions of a span that ran in
// some windows of time, as far as is known: where no end is, that they began
// there.
func (s *Source) ItemsDuring(ctx context.Context, stage string, span Span, windows []Span) (n int64, err error) {
	at, end := s.found.name["at"], s.found.name["at"]
	if s.HasEnds() {
		end = fmt.Sprintf("coalesce(%s, %s)", s.found.name["ended"], at)
	}
	from, until := span.bounds()
	args := []any{from, until}
	var ran []string
	for _, w := range windows {
		ran = append(ran, fmt.Sprintf("(%s < $%d AND %s >= $%d)", at, len(args)+1, end, len(args)+2))
		args = append(args, w.Until.UTC(), w.From.UTC())
	}
	query := fmt.Sprintf("SELECT coalesce(sum(greatest(%s, 0)), 0)::bigint FROM %s WHERE %s >= $1 AND %s < $2 AND (%s)",
		s.found.name[stage], s.Name, at, at, strings.Join(ran, " OR "))
	if err := s.pool.QueryRow(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count items of %s: %w", s.Name, err)
	}
	return n, nil
}

// Untimed counts rows that have no time, or an infinite one.
func (s *Source) Untimed(ctx context.Context) (n int64, err error) {
	at := s.found.name["at"]
	err = s.pool.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE %s IS NULL OR NOT isfinite(%s)",
		s.Name, at, at)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count %s without a time: %w", s.Name, err)
	}
	return n, nil
}

// Read returns the rows of a span that come after a cursor, at most so many,
// by time and then by id. Ids of any type are ordered as text: which row of one
// URL and time is the first decides on keys, and earlier releases ordered so.
func (s *Source) Read(ctx context.Context, span Span, after Cursor, limit int) ([]Row, error) {
	// A bare name in ORDER BY would be that of an output column, which list casts.
	at, id := s.Name+"."+s.found.name["at"], s.Name+"."+s.found.name["id"]+"::text"
	from, until := span.bounds()
	if after.At.After(from) {
		from = after.At.UTC()
	}
	query := fmt.Sprintf("SELECT %s FROM %s WHERE %s >= $1 AND %s < $2", s.found.list(), s.Name, at, at)
	args := []any{from, until}
	if after.ID != "" {
		query += fmt.Sprintf(" AND (%s, %s) > ($1, $3::text)", at, id)
		args = append(args, after.ID)
	}
	query += fmt.Sprintf(" ORDER BY %s, %s LIMIT %d", at, id, limit)
	rows, _ := s.pool.Query(ctx, query, args...)
	return dbpool.Collect(rows, s.scan, "read %s after %s", s.Name, from.Format(time.RFC3339))
}

func (s *Source) scan(row pgx.CollectableRow) (Row, error) {
	var r Row
	var url, canonical, source *string
	var ended *time.Time
	known := map[string]any{
		"id": &r.ID, "at": &r.At, "crawled": &r.Crawled, "indexed": &r.Indexed,
		"url": &url, "canonical_url": &canonical, "source": &source, "ended": &ended,
	}
	texts := make([]*string, len(s.found.columns)) // of the columns that are metadata
	targets := make([]any, len(s.found.columns))
	for i, c := range s.found.columns {
		if targets[i] = known[c.field]; targets[i] == nil {
			targets[i] = &texts[i]
		}
	}
	if err := row.Scan(targets...); err != nil {
		return r, err
	}
	r.At, r.URL, r.CanonicalURL, r.SourceName = r.At.UTC(), text(url), text(canonical), strings.TrimSpace(text(source))
	if ended != nil {
		r.Ended = ended.UTC()
	}
	r.fields = map[string]string{}
	for i, c := range s.found.columns {
		if texts[i] != nil && *texts[i] != "null" {
			r.fields[c.field] = *texts[i]
		}
	}
	r.fields.list("topics")
	return r, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// fields are metadata as JSON.
type fields map[string]string

// list turns a JSON text that holds a list, from a column of type text, into
// the list.
func (f fields) list(name string) {
	var inner string
	if json.Unmarshal([]byte(f[name]), &inner) == nil && strings.HasPrefix(inner, "[") && json.Valid([]byte(inner)) {
		f[name] = inner
	}
}

// Query is the SELECT of a stage's rows of a span, for people.
func (s *Source) Query(stage string, span Span) string {
	names := make([]string, 0, len(s.found.columns))
	for _, c := range s.found.columns {
		if s.Counts() && (c.field == "crawled" || c.field == "indexed") && c.field != stage {
			continue
		}
		names = append(names, s.found.name[c.field])
	}
	at := s.found.name["at"]
	q := fmt.Sprintf("SELECT %s FROM %s WHERE %s >= '%s' AND %s < '%s'", strings.Join(names, ", "), s.Name,
		at, span.From.UTC().Format(time.RFC3339), at, span.Until.UTC().Format(time.RFC3339))
	if s.Counts() {
		q += fmt.Sprintf(" AND %s > 0", s.found.name[stage])
	}
	return q
}
