package userqueue

import (
	"context"
	"embed"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

//go:embed sql/*.sql
var texts embed.FS

func text(name string) string { return queue.Text(texts, name) }

// Kind is the kind of items that are in user-defined queues.
type Kind struct{ statements sync.Map } // queue.ID → *queue.Statements

var _ queue.Kind = (*Kind)(nil)

// Holds implements queue.Kind.
func (*Kind) Holds(q queue.ID) bool { return q >= queue.FirstOwn }

// Statements implements queue.Kind.
func (k *Kind) Statements(q queue.ID) *queue.Statements {
	if s, ok := k.statements.Load(q); ok {
		return s.(*queue.Statements)
	}
	fill := strings.NewReplacer("{queue}", strconv.Itoa(int(q))).Replace
	s, _ := k.statements.LoadOrStore(q, queue.Statements{
		Lock: fill(text("lock")), Find: fill(text("find")), Write: text("write"), Start: text("write_start"),
		Done:   text("write_done"),
		Limits: text("limits"),
	}.Prepare())
	return s.(*queue.Statements)
}

// Bodies implements queue.Kind.
func (*Kind) Bodies(ctx context.Context, pool *pgxpool.Pool, refs []queue.Ref) ([][]byte, error) {
	var b stream.QueueItem
	to := []any{&b.Queue, &b.Attempts, &b.Key, &b.Group, &b.Priority, &b.Payload, &b.CreatedAt, &b.TraceParent}
	return queue.Bodies(ctx, pool, text("bodies"), refs, to, func(r queue.Ref) any {
		b.ID, b.Generation, b.Attempt, b.CreatedAt = r.Item, r.Generation, b.Attempts+1, b.CreatedAt.UTC()
		return b
	})
}

// Follow implements queue.Kind: an item that has ended gives its key free, and
// may have a result.
func (*Kind) Follow(
	b *pgx.Batch, q queue.ID, move item.Move, changes []queue.Change, _ func(kind, key int32, n int64),
) {
	var ended, cancelled, retried, with []int64
	var results []string
	for _, c := range changes {
		if s := c.After.Status; s == item.Done || s == item.Failed {
			ended = append(ended, c.ID)
		}
		switch move {
		case item.Cancel:
			cancelled = append(cancelled, c.ID)
		case item.Retry:
			retried = append(retried, c.ID)
		case item.Complete:
			if len(c.Command.Result) > 0 && c.Command.Found == nil {
				with, results = append(with, c.ID), append(results, string(c.Command.Result))
			}
		}
	}
	if len(ended) > 0 {
		b.Queue(text("free_key"), q, ended)
		b.Queue(text("finished"), q, ended)
	}
	if len(with) > 0 {
		b.Queue(text("result"), with, results)
	}
	if len(cancelled) > 0 {
		b.Queue(text("cancelled"), q, cancelled)
	}
	if len(retried) > 0 {
		b.Queue(text("uncancelled"), q, retried)
	}
}
