package tracking

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

//go:embed sql/*.sql
var texts embed.FS

func text(name string) string { return queue.Text(texts, name) }

// Kind is the kind of items that shards are. A stage is a queue of its number.
type Kind struct{}

var _ queue.Kind = Kind{}

// Holds implements queue.Kind.
func (Kind) Holds(q queue.ID) bool {
	return q >= queue.ID(shard.EventIngest) && q <= queue.ID(shard.Sender)
}

// Statements implements queue.Kind.
func (Kind) Statements(q queue.ID) *queue.Statements { return stages[q] }

var stages = [...]*queue.Statements{
	shard.EventIngest: statementsOf(shard.EventIngest),
	shard.Splitter:    statementsOf(shard.Splitter),
	shard.Worker:      statementsOf(shard.Worker),
	shard.Sender:      statementsOf(shard.Sender),
}

func statementsOf(s shard.Stage) *queue.Statements {
	next := "0, 0" // after the last stage nothing becomes ready
	if n, ok := s.Next(); ok {
		next = fmt.Sprintf("CASE WHEN t.%[1]s_status = 'new' THEN %[2]d ELSE 0 END, t.%[1]s_generation", n.Column(), n)
	}
	prev := s
	if s.HasQueue() {
		prev--
	}
	fill := strings.NewReplacer("{stage}", s.Column(), "{prev}", prev.Column(), "{next}", next).Replace
	if s == shard.EventIngest {
		return queue.Statements{
			Lock: fill(text("lock_ingest")), Find: findIngest, Write: text("write_ingest"),
			StatusOnly: true, Name: s.String(),
		}.Prepare()
	}
	return queue.Statements{
		Lock: fill(text("lock")), Find: fill(text("find")),
		Write: fill(text("write")), Start: fill(text("write_start")), Done: fill(text("write_done")),
	}.Prepare()
}

// Bodies implements queue.Kind.
func (Kind) Bodies(ctx context.Context, pool *pgxpool.Pool, refs []queue.Ref) ([][]byte, error) {
	var w stream.WorkItem
	to := []any{&w.Filename, &w.Shard, &w.Attempts, &w.CreatedAt, &w.TraceParent}
	return queue.Bodies(ctx, pool, text("bodies"), refs, to, func(r queue.Ref) any {
		w.ID, w.Stage, w.Generation = r.Item, shard.Stage(r.Queue).String(), r.Generation
		w.CreatedAt = w.CreatedAt.UTC()
		return w
	})
}

// Counters of shards, which have the shard as their key.
const (
	countTotal  = queue.ForKinds     // items of a shard
	countDone   = queue.ForKinds + 1 // done at the last stage
	countFailed = queue.ForKinds + 2 // failed at the last stage
)

// Follow implements queue.Kind: it counts items at the last stage by shard.
func (Kind) Follow(_ *pgx.Batch, q queue.ID, _ item.Move, changes []queue.Change, add func(kind, key int32, n int64)) {
	if shard.Stage(q) != shard.Sender {
		return
	}
	count := func(key int32, status item.Status, n int64) {
		switch status {
		case item.Done:
			add(countDone, key, n)
		case item.Failed:
			add(countFailed, key, n)
		}
	}
	for _, c := range changes {
		count(c.Part, c.Before.Status, -1)
		count(c.Part, c.After.Status, +1)
	}
}

// findIngest is for the stage that nobody is known to have items of.
const findIngest = "SELECT p.id, '' AS worker FROM millrace.pipeline_tracking AS p WHERE p.id = u.id OR p.filename " +
	"= u.name AND p.shard = u.part"
