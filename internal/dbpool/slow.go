package dbpool

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// Slow logs and counts statements that take long, with the shape of their parameters and
// without any value. nil: it does nothing.
type Slow struct {
	after time.Duration
	log   *slog.Logger
	total *prometheus.CounterVec
}

// NewSlow returns what tells of statements that take after or longer; nil for 0.
func NewSlow(after time.Duration, reg prometheus.Registerer, log *slog.Logger) (*Slow, error) {
	if after <= 0 {
		return nil, nil
	}
	s := &Slow{after: after, log: log, total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "millrace_slow_statements_total", Help: "Statements that took MILLRACE_SLOW_STATEMENT or longer.",
	}, []string{"pool"})}
	if err := reg.Register(s.total); err != nil {
		return nil, fmt.Errorf("register metrics of slow statements: %w", err)
	}
	return s, nil
}

// statement is one under way.
type statement struct {
	sql   string
	args  []any
	begin time.Time
	more  int // statements that are sent with it
	rows  int // that it inserts, where they are sent apart from its text
}

// Inserted tells of an insert of so many rows, which began then, if it was slow. Inserts that go through a pool of this
// package tell that themselves.
func (s *Slow) Inserted(ctx context.Context, pool, sql string, rows int, begin time.Time, err error) {
	s.ended(ctx, pool, statement{sql: sql, rows: rows, begin: begin}, err)
}

// ended tells of a statement that has ended, if it was slow.
func (s *Slow) ended(ctx context.Context, pool string, st statement, err error) {
	if s == nil {
		return
	}
	took := time.Since(st.begin)
	if took < s.after {
		return
	}
	s.total.WithLabelValues(pool).Inc()
	s.log.WarnContext(ctx, "slow statement", "pool", pool, "took", took, "statement", textOf(st.sql),
		"parameters", shapeOf(st.args), "rows", st.rows, "statements_with_it", st.more, "failed", err != nil)
}

// longestText is how much of a statement is logged, in bytes.
const longestText = 500

var (
	comments = regexp.MustCompile(`(?m)^\s*--.*$`)
	literal  = regexp.MustCompile(`'(?:[^'\\]|\\.|'')*'`)
)

// textOf is a statement on one line, without the lines of comments and the values in it.
func textOf(sql string) string {
	sql = comments.ReplaceAllString(sql, "")
	text := literal.ReplaceAllString(strings.Join(strings.Fields(sql), " "), "'…'")
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "…"
	}
	return text
}

// shapeOf says of parameters their names, if they have any, their types, and how long those are that have a length.
func shapeOf(args []any) string {
	shapes := make([]string, 0, len(args))
	for _, a := range args {
		if named, is := a.(driver.NamedValue); is {
			shapes = append(shapes, "@"+named.Name+" "+shapeOf([]any{named.Value}))
			continue
		}
		v := reflect.ValueOf(a)
		switch v.Kind() {
		case reflect.String, reflect.Slice, reflect.Map, reflect.Array:
			shapes = append(shapes, fmt.Sprintf("%s(%d)", v.Type(), v.Len()))
		case reflect.Invalid:
			shapes = append(shapes, "null")
		default:
			shapes = append(shapes, v.Type().String())
		}
	}
	return strings.Join(shapes, ", ")
}

// tracer counts the calls that wait for a connection, and tells of slow statements.
type tracer struct {
	acquires
	pool string
	slow *Slow
}

var _ pgx.BatchTracer = (*tracer)(nil)

type statementKey struct{}

func (t *tracer) begin(ctx context.Context, st statement) context.Context {
	if t.slow == nil {
		return ctx
	}
	st.begin = time.Now()
	return context.WithValue(ctx, statementKey{}, &st)
}

func (t *tracer) end(ctx context.Context, err error) {
	if st, ok := ctx.Value(statementKey{}).(*statement); ok {
		t.slow.ended(ctx, t.pool, *st, err)
	}
}

// TraceQueryStart implements pgx.QueryTracer.
func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return t.begin(ctx, statement{sql: d.SQL, args: d.Args})
}

// TraceQueryEnd implements pgx.QueryTracer.
func (t *tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	t.end(ctx, d.Err)
}

// TraceBatchStart implements pgx.BatchTracer. What is told of a batch is its last statement
// before COMMIT: those before are mostly BEGIN and locks.
func (t *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	st := statement{more: max(0, d.Batch.Len()-1)}
	for _, q := range d.Batch.QueuedQueries {
		if q.SQL != "COMMIT" {
			st.sql, st.args = q.SQL, q.Arguments
		}
	}
	return t.begin(ctx, st)
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (t *tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchEndData) {
	t.end(ctx, d.Err)
}
