package uploads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// asked is a statement that was sent, with the settings that were sent before it in its transaction.
type asked struct {
	sql    string
	args   []any
	before []*pgx.QueuedQuery
}

// listener remembers the statements that are sent while it listens.
type listener struct {
	mu  sync.Mutex
	on  bool
	all []asked
}

// TraceQueryStart implements pgx.QueryTracer.
func (l *listener) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on && d.SQL != "begin" && d.SQL != "commit" {
		l.all = append(l.all, asked{sql: d.SQL, args: d.Args})
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*listener) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (l *listener) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on {
		return ctx
	}
	var before []*pgx.QueuedQuery
	for _, q := range d.Batch.QueuedQueries {
		switch {
		case strings.HasPrefix(q.SQL, "SELECT set_config"):
			before = append(before, q)
		case strings.Contains(q.SQL, "millrace.upload"):
			l.all = append(l.all, asked{q.SQL, q.Arguments, slices.Clone(before)})
		}
	}
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*listener) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*listener) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// heard returns what do sends.
func (l *listener) heard(do func()) []asked {
	l.mu.Lock()
	l.on, l.all = true, nil
	l.mu.Unlock()
	do()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = false
	return l.all
}

// plan is a node of what EXPLAIN says.
type plan struct {
	Node    string  `json:"Node Type"`
	Index   string  `json:"Index Name"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Dropped float64 `json:"Rows Removed by Filter"`
	Plans   []plan  `json:"Plans"`
}

// most is how many rows a node of the plan has read, those of all its loops together.
func (p plan) most() (rows float64) {
	rows = (p.Rows + p.Dropped) * p.Loops
	for _, of := range p.Plans {
		rows = max(rows, of.most())
	}
	return rows
}

// explain returns how Postgres runs a statement: with a plan for its parameters, as the first times on a connection, or
// with one for any. Nothing changes by that.
func explain(t *testing.T, pool *pgxpool.Pool, a asked, mode string) (out plan, text string) {
	t.Helper()
	all := []struct{ Plan plan }{}
	err := pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		tx, err := c.Begin(t.Context())
		if err != nil {
			return err
		}
		defer func() {
			_ = tx.Rollback(t.Context())
			_ = c.Conn().Deallocate(t.Context(), "explained")
		}()
		if _, err := tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = "+mode); err != nil {
			return err
		}
		for _, b := range a.before {
			if _, err := tx.Exec(t.Context(), b.SQL, b.Arguments...); err != nil {
				return err
			}
		}
		if _, err := tx.Prepare(t.Context(), "explained", a.sql); err != nil {
			return err
		}
		call := "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE explained"
		if len(a.args) > 0 {
			call += " ($1"
			for i := range a.args[1:] {
				call += fmt.Sprintf(", $%d", i+2)
			}
			call += ")"
		}
		args := append([]any{pgx.QueryExecModeSimpleProtocol}, a.args...)
		return tx.QueryRow(t.Context(), call, args...).Scan(&text)
	})
	if err == nil {
		err = json.Unmarshal([]byte(text), &all)
	}
	if err != nil {
		t.Fatalf("%s: %s", a.sql, err)
	}
	return all[0].Plan, text
}

// grown is a database with an upload of many rows, whose tables are analyzed when a test says so.
type grown struct {
	t     *testing.T
	heard *listener
	pool  *pgxpool.Pool
	store *uploads.Store
	job   uploads.Job
	rows  int
}

func grow(t *testing.T) *grown {
	t.Helper()
	g := &grown{t: t, heard: &listener{}}
	g.pool = engine.Pool(t, queue.Configure, func(c *pgxpool.Config) { c.ConnConfig.Tracer = g.heard })
	var err error
	if g.store, err = uploads.New(g.pool, uploads.Limits{}, uploads.Attempts{}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"upload_item", "upload_row", "upload_result"} {
		g.exec("ALTER TABLE millrace." + table + " SET (autovacuum_enabled = false)")
	}
	g.exec("INSERT INTO millrace.upload_owner (subject) VALUES ('ann')")
	return g
}

func (g *grown) exec(sql string, args ...any) {
	g.t.Helper()
	if _, err := g.pool.Exec(g.t.Context(), sql, args...); err != nil {
		g.t.Fatal(err)
	}
}

func (g *grown) analyze() {
	g.exec("ANALYZE millrace.upload_item, millrace.upload_row, millrace.upload_result, millrace.upload")
}

// upload begins an upload whose rows are to come.
func (g *grown) upload() {
	id := uuid.New()
	g.exec(`INSERT INTO millrace.upload (id, owner_no, kind, processor, header, received_at, queue_state)
		VALUES ($1, 1, 'csv', 'q', '["a","b"]', now(), 'RUNNING')`, id)
	j, err := g.store.Get(g.t.Context(), uploads.Viewer{All: true}, id)
	if err != nil {
		g.t.Fatal(err)
	}
	g.job, g.rows = j, 0
}

// perBatch is how many rows change at a time.
const perBatch = 500

// at is when a row has changed.
func at(row int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(row/perBatch) * 10 * time.Millisecond)
}

// add adds rows to the upload.
func (g *grown) add(n int, status schema.Status) {
	from, to := g.rows+1, g.rows+n
	g.exec(`INSERT INTO millrace.upload_row SELECT $1, n, ('["' || n || '","x"]')::json FROM generate_series($2::int, $3::int) AS n`,
		g.job.No, from, to)
	g.exec(`INSERT INTO millrace.upload_item (job_no, row_no, owner_no, status, updated_at)
		SELECT $1, n, 1, $4, $5::timestamptz + n / $6 * interval '10 ms' FROM generate_series($2::int, $3::int) AS n`,
		g.job.No, from, to, status, at(0), perBatch)
	g.exec("UPDATE millrace.upload SET read_rows = $2, "+strings.ToLower(status.String())+" = $2, changed_at = $3 WHERE no = $1",
		g.job.No, to, at(to))
	g.rows = to
}

// mostRead is how many rows a node of a plan may read for a page of 100, each of six statuses apart.
const mostRead = 700

// pages are what is done with pages behind a row, and with items of which there are none.
func (g *grown) pages(row int) map[string]func(context.Context) error {
	all := []schema.Status{schema.Pending, schema.Processing, schema.StatusDone, schema.Error, schema.NotFound, schema.Skipped}
	changed := schema.Cursor{Job: g.job.ID.String(), At: at(row), Row: int64(row)}
	items := func(q uploads.ItemsQuery) func(context.Context) error {
		q.Limit = 100
		return func(ctx context.Context) error {
			_, _, err := g.store.Items(ctx, g.job, q)
			return err
		}
	}
	return map[string]func(context.Context) error{
		"grid":       items(uploads.ItemsQuery{Statuses: all, ByRow: true, After: schema.Cursor{Row: int64(row)}}),
		"items":      items(uploads.ItemsQuery{Statuses: all[:2], After: changed}),
		"all items":  items(uploads.ItemsQuery{Statuses: all, After: changed}),
		"none there": items(uploads.ItemsQuery{Statuses: all[3:], ByRow: true, After: schema.Cursor{Row: int64(row)}}),
		"pending": func(ctx context.Context) error {
			_, err := g.store.Pending(ctx, uploads.PendingQuery{Statuses: all[:2], After: changed, Limit: 100})
			return err
		},
		"reprocess": func(ctx context.Context) error {
			n, _, err := g.store.Reprocess(ctx, uploads.Viewer{All: true}, g.job.ID, uploads.Reprocess{Statuses: all[2:]}, time.Now())
			if n > 0 {
				err = errors.Join(err, fmt.Errorf("%d items are processed again", n))
			}
			return err
		},
	}
}

// look reads pages from several places.
func (g *grown) look(when string) {
	g.t.Helper()
	for _, row := range []int{0, 100, g.rows / 10, g.rows / 2, g.rows - 50, g.rows} {
		for name, do := range g.pages(row) {
			for _, a := range g.heard.heard(func() {
				if err := do(g.t.Context()); err != nil {
					g.t.Fatal(err)
				}
			}) {
				g.few(a, fmt.Sprintf("%s, %s, behind row %d of %d", when, name, row, g.rows))
			}
		}
	}
}

// few makes sure that a statement reads few rows.
func (g *grown) few(a asked, when string) {
	g.t.Helper()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		if p, text := explain(g.t, g.pool, a, mode); p.most() > mostRead {
			g.t.Errorf("%s, %s: %.0f rows are read", when, mode, p.most())
			g.t.Log(a.sql, text)
		}
	}
}

// TestPlans: pages read as many rows as they have, whatever Postgres knows of the tables: nothing, as they were before
// the upload, as they were when it had a tenth of its rows, or as they are.
func TestPlans(t *testing.T) {
	const n = 50_000
	for name, others := range map[string]schema.Status{"alone": 0, "beside another": schema.StatusDone} {
		t.Run(name, func(t *testing.T) {
			g := grow(t)
			if others != 0 {
				g.upload()
				g.add(n/2, others)
				g.analyze()
			}
			g.upload()
			g.add(n, schema.Pending)
			g.look("before it is analyzed")
			g.upload()
			g.add(n/10, schema.Pending)
			g.analyze()
			g.add(n*9/10, schema.Pending)
			g.look("analyzed at a tenth")
			g.analyze()
			g.look("analyzed")
		})
	}
}

// TestFeedPlans: the same of what puts rows into a queue, and of what has them follow their items.
func TestFeedPlans(t *testing.T) {
	const n = 50_000
	g := grow(t)
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, g.pool, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	own, err := userqueue.New(queues)
	if err != nil {
		t.Fatal(err)
	}
	feed, err := uploads.NewFeeder(uploads.FeederConfig{}, g.store, own, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Create(t.Context(), queue.Settings{Name: "q", LeaseS: 30, RetentionS: 3600, MaxItems: 100_000}); err != nil {
		t.Fatal(err)
	}
	q, err := own.Get(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	g.exec("UPDATE millrace.stage SET followed = true WHERE stage = $1", q.ID)
	// work feeds rows, and ends their items.
	work := func(when string) {
		t.Helper()
		seen := ""
		for _, a := range g.heard.heard(func() {
			if n, err := feed.Step(t.Context(), "q"); n == 0 || err != nil {
				t.Fatal(n, err)
			}
			var ids []int64
			if err := g.pool.QueryRow(t.Context(), "SELECT array_agg(item_id) FROM millrace.ready").Scan(&ids); err != nil {
				t.Fatal(err)
			}
			commands := make([]queue.Command, len(ids))
			for i, id := range ids {
				commands[i] = queue.Command{ID: id, Worker: "w"}
			}
			for _, move := range []item.Move{item.Start, item.Complete} {
				if _, err := queues.Apply(t.Context(), q.ID, move, commands); err != nil {
					t.Fatal(err)
				}
			}
		}) {
			g.few(a, when)
			seen += a.sql
		}
		for _, what := range []string{"The rows of a job that wait", "Rows become items", "Rows follow their items"} {
			if !strings.Contains(seen, what) {
				t.Errorf("%s: a statement was not sent: %s", when, what)
			}
		}
	}
	g.upload()
	g.add(n/2, schema.StatusDone)
	g.analyze()
	g.upload()
	g.add(n, schema.Pending)
	work("before it is analyzed")
	g.exec("UPDATE millrace.upload SET queue_state = 'PAUSED'")
	g.upload()
	g.add(n/10, schema.Pending)
	g.analyze()
	g.add(n*9/10, schema.Pending)
	work("analyzed at a tenth")
	g.analyze()
	work("analyzed")
}
