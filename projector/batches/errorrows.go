package batches

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/item"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// errorColumns are those of batch_error that errorRows has values for.
var errorColumns = []string{
	"job_id", "batch_index", "position", "project_id", "content_id", "read_at", "state", "category", "code", "print", "queue",
	"due_at", "task",
}

// copyErrors writes the rows that the errors of batches have. It makes one row at a time while it
// sends them.
func copyErrors(ctx context.Context, tx pgx.Tx, entries []*entry, now time.Time) error {
	if len(entries) == 0 {
		return nil
	}
	rows := &errorRows{entries: entries, next: -1, now: now, values: make([]any, 0, len(errorColumns))}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"millrace", "batch_error"}, errorColumns, rows)
	return err
}

// errorRows are the rows of the table batch_error that the errors of batches have. It implements
// pgx.CopyFromSource.
type errorRows struct {
	entries []*entry // the first one is under way
	next    int      // position of the row in it
	now     time.Time
	values  []any
}

// Next goes on to the next error.
func (r *errorRows) Next() bool {
	for ; len(r.entries) > 0; r.entries, r.next = r.entries[1:], -1 {
		items := r.entries[0].read.Items
		for r.next++; r.next < len(items); r.next++ {
			if !items[r.next].OK() {
				return true
			}
		}
	}
	return false
}

// Values returns the row of the error. It is valid until the next call.
func (r *errorRows) Values() ([]any, error) {
	e := r.entries[0]
	o, of := &e.read.Items[r.next].Outcome, e.read.About.Batch
	task, err := json.Marshal(schema.TaskOf(&e.read.About, r.next, o))
	if err != nil {
		return nil, fmt.Errorf("write what is tried again: %w", err)
	}
	state, due := "error", r.now
	policy, again := o.Category.Retry()
	if again {
		state, due = "waiting", r.now.Add(policy.Waits[0])
	}
	r.values = append(r.values[:0], of.Job, of.Index, int32(r.next), schema.ProjectOf(of.Job), o.ContentID, e.at, state,
		string(o.Category), schema.Text(o.Code), item.FingerprintHash(item.Fingerprint(o.Message)), policy.Queue, due,
		string(task))
	return r.values, nil
}

// Err implements pgx.CopyFromSource.
func (*errorRows) Err() error { return nil }
