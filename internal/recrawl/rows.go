package recrawl

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/outbox"
	"github.com/millrace-io/millrace/internal/parts"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/batches"
	"github.com/millrace-io/millrace/schemas/stream"
)

// States of rows. One of an item that is no error any more is gone.
const (
	isError = "error"
	waiting = "waiting"
	queued  = "queued"
	gone    = "gone"
)

// row is an item that is an error. It is locked.
type row struct {
	id         int64
	batch      batches.ID
	position   int
	state      string
	version    int // outcomes that retries have brought
	generation int // how often it was an error that nobody retried, but for the first time
	tries      int
	category   batches.Category
	code       string
	print      int64
	queue      string
	contentID  string
	item       int64 // 0: none
	readAt     time.Time
	wait       time.Duration // until it is tried again
	changed    bool
}

// batch is what a batch counts. It is locked.
type batch struct {
	ok, err, retrying int
	codes             map[string]int
	about             batches.Announcement
	changed           bool
}

// of returns the number that counts items whose rows have a state.
func (b *batch) of(state string) *int {
	switch state {
	case isError:
		return &b.err
	case gone:
		return &b.ok
	}
	return &b.retrying
}

// work is what one transaction does with rows.
type work struct {
	rows     []*row // by their ids
	batches  map[batches.ID]*batch
	outcomes []outbox.Message
}

// lock locks the rows that meet a condition, and their batches (5).
func lock(ctx context.Context, t *queue.Tx, which string, args ...any) (*work, error) {
	w := &work{batches: map[batches.ID]*batch{}}
	fill := strings.NewReplacer("{which}", which).Replace
	t.Batch.Queue(fill(text("lock")), args...).Query(func(rows pgx.Rows) (err error) {
		w.rows, err = pgx.CollectRows(rows, scanRow)
		return err
	})
	t.Batch.Queue(fill(text("lock_batches")), args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			b := &batch{about: batches.Announcement{Format: batches.Inline, Count: -1}}
			a := &b.about
			err := rows.Scan(&a.Batch.Job, &a.Batch.Index, &b.ok, &b.err, &b.retrying, &b.codes, &a.Platform, &a.TaskType,
				&a.Keyword)
			if err != nil {
				return err
			}
			w.batches[a.Batch] = b
		}
		return rows.Err()
	})
	return w, t.Flush(ctx)
}

func scanRow(r pgx.CollectableRow) (*row, error) {
	v := new(row)
	var item *int64
	err := r.Scan(&v.id, &v.batch.Job, &v.batch.Index, &v.position, &v.state, &v.version, &v.generation, &v.tries,
		&v.category, &v.code, &v.print, &v.queue, &v.contentID, &item, &v.readAt)
	if item != nil {
		v.item = *item
	}
	return v, err
}

// move has a row be in a state, and its batch count it there (1).
func (w *work) move(r *row, to string) {
	b := w.batches[r.batch]
	*b.of(r.state)--
	*b.of(to)++
	if to == isError {
		r.generation++
	}
	r.state, r.changed, b.changed = to, true, true
}

// recode has the batch count the error of a row under another code. Without a code, the row is
// not counted as an error any more.
func (w *work) recode(r *row, code string) {
	b := w.batches[r.batch]
	if b.codes[r.code]--; b.codes[r.code] <= 0 {
		delete(b.codes, r.code)
	}
	if r.code = code; code != "" {
		b.codes[code]++
	}
	b.changed = true
}

// tell has the outcome of a retry go to ClickHouse (2).
func (w *work) tell(r *row, o batches.Outcome, content []byte) error {
	form, err := (&batches.Read{
		About: w.batches[r.batch].about, Items: []batches.Item{{Outcome: o, Content: content}},
		AnnouncedAt: r.readAt,
		Retry:       &batches.Retry{Position: r.position, Version: r.version, ReadAt: r.readAt.UnixNano()},
	}).Append(nil)
	if err == nil {
		form, err = parts.Single(form)
	}
	if err != nil {
		return fmt.Errorf("write the outcome of a retry: %w", err)
	}
	name := fmt.Sprintf("%s/%d/%d", r.batch.Job, r.batch.Index, r.position)
	w.outcomes = append(w.outcomes, outbox.Message{
		Key: name, Subject: stream.BatchesReadSubject, ID: fmt.Sprintf("retry/%s/%d", name, r.version), Body: form,
	})
	return nil
}

// write queues what has changed.
func (w *work) write(t *queue.Tx, o *outbox.Outbox) error {
	w.writeRows(t.Batch)
	if len(w.outcomes) > 0 {
		o.Queue(t.Batch, w.outcomes)
	}
	return w.writeBatches(t.Batch)
}

func (w *work) writeRows(b *pgx.Batch) {
	var ids, ended, prints, items []int64
	var states, categories, codes, queues []string
	var versions, tries, generations []int32
	var waits []float64
	for _, r := range w.rows {
		switch {
		case !r.changed:
		case r.state == gone:
			ended = append(ended, r.id)
		default:
			ids, states, categories = append(ids, r.id), append(states, r.state), append(categories, string(r.category))
			codes, queues, prints = append(codes, r.code), append(queues, r.queue), append(prints, r.print)
			versions, tries = append(versions, int32(r.version)), append(tries, int32(r.tries))
			generations = append(generations, int32(r.generation))
			items, waits = append(items, r.item), append(waits, r.wait.Seconds())
		}
	}
	if len(ended) > 0 {
		b.Queue("DELETE FROM millrace.batch_error WHERE id = ANY ($1::bigint[])", ended)
	}
	if len(ids) > 0 {
		b.Queue(text("write"), ids, states, versions, tries, categories, codes, prints, queues, items, waits,
			generations)
	}
}

func (w *work) writeBatches(to *pgx.Batch) error {
	var jobs, codes []string
	var indexes, oks, errs, retrying []int32
	for id, b := range w.batches {
		if !b.changed {
			continue
		}
		form, err := json.Marshal(b.codes)
		if err != nil {
			return fmt.Errorf("write the errors of a batch: %w", err)
		}
		jobs, indexes, codes = append(jobs, id.Job), append(indexes, id.Index), append(codes, string(form))
		oks, errs, retrying = append(oks, int32(b.ok)), append(errs, int32(b.err)), append(retrying, int32(b.retrying))
	}
	if len(jobs) > 0 {
		to.Queue(text("write_batches"), jobs, indexes, oks, errs, retrying, codes)
	}
	return nil
}
