package uploads

import (
	"context"
	"embed"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/feed"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

//go:embed sql/*.sql
var texts embed.FS

func text(name string) string {
	return strings.NewReplacer("{next}", nextChange, "{rate}", itemsRate).Replace(queue.Text(texts, name))
}

var (
	sqlLockRows = text("lock_rows")
	sqlFollow   = text("follow")
	sqlLapsed   = text("lapsed")
)

// moved has rows follow their items, in the transactions that change these (6).
func (f *Feeder) moved(_ context.Context, t *queue.Tx, changes []queue.Change) error {
	var m moves
	for _, c := range changes {
		f.follow(&m, c)
	}
	if len(m.items) > 0 {
		m.queue(t, f.log)
		t.OnCommit(f.wakeFeeds)
	}
	if len(m.lapsed) > 0 {
		t.Batch.Queue(sqlLockRows, m.lapsed)
		t.Batch.Queue(sqlLapsed, m.lapsed)
	}
	return nil
}

// queue adds the statements. They take the locks of jobs with the last words of the transaction: a worker's report
// holds up others of its job for as long as its commit takes. A job whose last item ends by them is done.
func (m *moves) queue(t *queue.Tx, log *slog.Logger) {
	t.Batch.Queue(sqlLockRows, m.items)
	t.Batch.Queue(sqlFollow, m.items, m.to, m.attempts, m.waits, m.results, m.errs, m.worked).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var items int32
		var over bool
		_, err := pgx.ForEachRow(rows, []any{&id, &items, &over}, func() error {
			if over {
				t.OnCommit(func() { logDone(log, id, items) })
			}
			return nil
		})
		return err
	})
}

func logDone(log *slog.Logger, id uuid.UUID, items int32) {
	log.Info("an upload is done", "upload", id, "items", items)
}

// moves are what items do to their rows.
type moves struct {
	items    []int64
	to       []int16
	attempts []int32
	waits    []float64 // seconds
	results  []*string
	errs     []*string
	worked   []bool // a worker had the item

	lapsed []int64 // items that have outlived their leases
}

// follow adds what a change of an item does to its row, if anything.
func (f *Feeder) follow(m *moves, c queue.Change) {
	if c.Move == item.Expire && !c.Deleted {
		m.lapsed = append(m.lapsed, c.ID)
	}
	to, wait, fault := schema.Error, time.Duration(0), c.Command.Error
	result := []byte(nil)
	switch feed.Status(c) {
	case "started":
		return
	case "new":
		if c.Before.Status != item.Failed {
			return // it is tried again, or was given back
		}
		to, fault = schema.Processing, ""
	case "done":
		if c.Command.Found == nil { // it ends in another way than by a report
			userqueue.SettleResult(&c.Command, c.Command.Result)
		}
		to, wait, fault = f.found(c.Command.Found, c.After.Attempts)
		if to == schema.StatusDone {
			result = c.Command.Result
		}
	case "cancelled":
		to = schema.Skipped
	case "deleted":
		to, fault = schema.Pending, ""
	}
	m.items, m.to, m.waits = append(m.items, c.ID), append(m.to, int16(to)), append(m.waits, wait.Seconds())
	m.results, m.errs = append(m.results, orNil(string(result))), append(m.errs, orNil(fault))
	attempts := c.After.Attempts
	if c.Deleted {
		attempts = 0 // as they are
	}
	m.attempts = append(m.attempts, attempts)
	m.worked = append(m.worked, !c.Deleted && c.Before.Status == item.Started)
}

// notFoundWait is how long a row waits that was not found, and is looked for again.
const notFoundWait = 30 * time.Second

// found returns what becomes of a row whose item is done, how long it waits until it is tried again, and the rule
// that its result breaks.
func (f *Feeder) found(said *queue.Found, attempts int32) (to schema.Status, wait time.Duration, fault string) {
	switch {
	case said.Fault != "":
		return schema.Error, 0, said.Fault
	case said.Skipped:
		return schema.Skipped, 0, ""
	case said.NotFound && attempts < f.store.attempts.of(schema.NotFound):
		return schema.Pending, f.cfg.NotFoundWait/2 + rand.N(f.cfg.NotFoundWait), ""
	case said.NotFound:
		return schema.NotFound, 0, ""
	}
	return schema.StatusDone, 0, ""
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
