package uploads

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/uploads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// waits are the changes of uploads that their callers wait for until they are on disk.
type waits struct {
	mu  sync.Mutex
	all []string
}

func (w *waits) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, what)
}

// TraceQueryStart implements pgx.QueryTracer.
func (w *waits) TraceQueryStart(ctx context.Context, c *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	sql := strings.Join(strings.Fields(d.SQL), " ")
	alone := c.PgConn().TxStatus() == 'I' // a transaction by itself
	if sql == "commit" || alone && strings.Contains(sql, "UPDATE millrace.upload ") && strings.Contains(sql, "WHERE no = $1") {
		w.note(sql)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*waits) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestFewWaits: an upload of 100 rows waits for the disk when it begins, comes in, is persisted in two batches, is
// processed, and ends. Beside a large upload each wait is for what that has written, too.
func TestFewWaits(t *testing.T) {
	w := &waits{}
	pool := engine.Pool(t, queue.Configure, func(c *pgxpool.Config) { c.ConnConfig.Tracer = w })
	s := serveOn(t, pool, nil, auth.Config{}, uploads.Limits{})
	s.run(schema.Bounds{})
	id := s.made("x.csv", []byte("a\n"+strings.Repeat("1\n", 100)))
	j := s.until(id, "done", func(j uploads.Job) bool { return j.State == schema.Done })
	if j.Counts[schema.StatusDone] != 100 {
		t.Fatalf("%+v", j)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 6
	if n := len(w.all); n > most {
		t.Errorf("%d waits, want %d at most: %q", n, most, w.all)
	}
}
