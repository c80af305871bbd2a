package recrawl

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

// TestRetryOfLost (2): an item that has failed is brought back where its error waits for it, and not where another item
// has mended that or tries it. Items that others have added have no errors.
func TestRetryOfLost(t *testing.T) {
	pool := engine.Pool(t, queue.Configure)
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, pool, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	own, err := userqueue.New(queues)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(own, slog.New(slog.DiscardHandler))
	if err == nil {
		err = s.MakeQueues(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO millrace.batch (job_id, batch_index, format, content_count, ok, error, retrying, errors, content_hash, announced_at,
			read_at, changed_at, seq)
		VALUES ('j', 0, 'inline', 4, 1, 1, 2, '{"TIMEOUT": 3}', '\x00', now(), now(), now(), 1)`)
	tasks := []string{
		`{"job_id":"j","batch_index":0,"position":0}`, `{"job_id":"j","batch_index":0,"position":1}`,
		`{"job_id":"j","batch_index":0,"position":2}`, `{"job_id":"j","batch_index":0,"position":3}`,
		`{"job_id":"j"}`, `[1]`, `7`,
	}
	items := make([]userqueue.EnqueueItem, len(tasks))
	for i, text := range tasks {
		items[i].Payload = json.RawMessage(text)
	}
	added, err := own.Enqueue(t.Context(), "recrawl-network", items)
	if err != nil {
		t.Fatal(err)
	}
	of, err := own.Get(t.Context(), "recrawl-network")
	if err != nil {
		t.Fatal(err)
	}
	commands, ids := make([]queue.Command, len(added)), make([]int64, len(added))
	for i, a := range added {
		commands[i].ID, ids[i] = a.ID, a.ID
	}
	if _, err := queues.Apply(t.Context(), of.ID, item.Cancel, commands); err != nil {
		t.Fatal(err)
	}
	// The error of the first is mended. The others are an error, one that waits, and one that is tried with another item.
	exec(`INSERT INTO millrace.batch_error (job_id, batch_index, position, state, project_id, content_id, category, code, print,
			queue, due_at, item_id, task, read_at)
		SELECT 'j', 0, position, state, '', '', 'network', 'TIMEOUT', 1, 'recrawl-network', now(), item, '{}', now()
		FROM (VALUES (1, 'error', $1::bigint), (2, 'waiting', NULL), (3, 'queued', -1)) AS v (position, state, item)`, ids[1])
	results, err := own.Retry(t.Context(), of.ID, ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		want := item.Changed
		if i == 0 || i == 3 {
			want = item.Forbidden
		}
		if r.Outcome != want || strings.HasPrefix(r.Rule, "must be about an error") != (want == item.Forbidden) {
			t.Errorf("item %s: %s %q, want %s", tasks[i], r.Outcome, r.Rule, want)
		}
	}
	var states string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(position || ' ' || state || ' ' || coalesce(item_id = any ($1::bigint[]), false),
		', ' ORDER BY position) FROM millrace.batch_error`, ids).Scan(&states); err != nil ||
		states != "1 queued true, 2 queued true, 3 queued false" {
		t.Errorf("%s, %v", states, err)
	}
}
