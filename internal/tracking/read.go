package tracking

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// StageState is an item at one stage.
type StageState struct {
	Status     item.Status
	Generation int32
	Attempts   int32
	Worker     string // who took it last
	TakenAt    time.Time
	Error      string // the last one
}

// ShardState is an item at all stages.
type ShardState struct {
	Shard     int32
	UpdatedAt time.Time
	Stages    [4]StageState // by shard.Stage; of EventIngest the status alone
}

// File returns the items of a file by their shard.
func (s *Store) File(ctx context.Context, file string) ([]ShardState, error) {
	rows, err := s.pool.Query(ctx, text("file"), file)
	if err != nil {
		return nil, fmt.Errorf("read file %s: %w", file, err)
	}
	items, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (v ShardState, err error) {
		var statuses [4]string
		var taken [4]*time.Time
		to := []any{&v.Shard, &v.UpdatedAt, &statuses[0]}
		for i := 1; i < 4; i++ {
			st := &v.Stages[i]
			to = append(to, &statuses[i], &st.Generation, &st.Attempts, &st.Worker, &taken[i], &st.Error)
		}
		err = r.Scan(to...)
		for i, name := range statuses {
			v.Stages[i].Status, _ = item.ParseStatus(name)
			if taken[i] != nil {
				v.Stages[i].TakenAt = *taken[i]
			}
		}
		return v, err
	})
	if err != nil {
		return nil, fmt.Errorf("read file %s: %w", file, err)
	}
	if len(items) == 0 {
		return nil, ErrNoFile
	}
	return items, nil
}

// QueuePage asks for items that are ready for a stage.
type QueuePage struct {
	Stage        shard.Stage
	Limit        int
	Offset       int
	After        *QueuePlace // begin behind this place; nil: at the head
	UpdatedSince time.Time   // only items changed at or after this time
}

// QueuePlace is a place in a queue.
type QueuePlace struct {
	Priority int16
	Item     int64
}

// QueueItem is an item in a queue.
type QueueItem struct {
	QueuePlace
	Filename   string
	Shard      int32
	CreatedAt  time.Time
	Generation int32
}

// Queue returns what stands in a queue in the order in which it is taken: the
// highest priority first, and the oldest of it.
func (s *Store) Queue(ctx context.Context, p QueuePage) ([]QueueItem, error) {
	name, after := "queue", QueuePlace{Priority: 10}
	if p.After != nil {
		after = *p.After
	}
	args := []any{int16(p.Stage), p.Limit, p.Offset, after.Priority, after.Item}
	if !p.UpdatedSince.IsZero() {
		name, args = "queue_since", append(args, p.UpdatedSince)
	}
	rows, _ := s.pool.Query(ctx, text(name), args...)
	return dbpool.Collect(rows, func(r pgx.CollectableRow) (v QueueItem, err error) {
		return v, r.Scan(&v.Priority, &v.Item, &v.Generation, &v.Filename, &v.Shard, &v.CreatedAt)
	}, "read the queue of %s", p.Stage)
}

// FilesPage asks for files, the newest first.
type FilesPage struct {
	Search string       // in the name
	Status *item.Status // only files with items of this status; for Done, of which all are done
	Stage  *shard.Stage // at this stage; nil: at any, for Done at the last
	Limit  int
	After  *FilePlace // begin behind this place; nil: at the newest
}

// FilePlace is a file's place among files.
type FilePlace struct {
	CreatedAt time.Time
	Filename  string
}

// FileState is a file in numbers.
type FileState struct {
	FilePlace
	UpdatedAt   time.Time
	CancelledAt *time.Time
	Priority    int16
	Shards      int64
	Started     int64 // items that somebody has now
	Done        int64 // done at the last stage
	Failed      int64 // failed at some stage
}

// Files lists files.
func (s *Store) Files(ctx context.Context, p FilesPage) ([]FileState, error) {
	args := []any{p.Limit, "%" + escapeLike.Replace(p.Search) + "%", nil, ""}
	if p.After != nil {
		args[2], args[3] = p.After.CreatedAt, p.After.Filename
	}
	rows, _ := s.pool.Query(ctx, strings.ReplaceAll(text("files"), "{filter}", p.filter()), args...)
	return dbpool.Collect(rows, func(r pgx.CollectableRow) (v FileState, err error) {
		return v, r.Scan(&v.Filename, &v.CreatedAt, &v.UpdatedAt, &v.CancelledAt, &v.Priority, &v.Shards, &v.Started,
			&v.Done, &v.Failed)
	}, "list files")
}

var escapeLike = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

// filter is the condition for the status. The names in it are of this program.
func (p FilesPage) filter() string {
	const items = "(SELECT FROM millrace.pipeline_tracking AS t WHERE t.filename = f.filename AND "
	switch {
	case p.Status == nil:
		return "true"
	case *p.Status == item.Done && p.Stage == nil:
		return "NOT EXISTS " + items + "t.mysql_sender_status <> 'done')"
	case *p.Status == item.Done:
		return "NOT EXISTS " + items + "t." + p.Stage.Column() + "_status <> 'done')"
	case p.Stage != nil:
		return "EXISTS " + items + "t." + p.Stage.Column() + "_status = '" + p.Status.String() + "')"
	}
	return "EXISTS " + items + "'" + p.Status.String() +
		"' IN (t.event_ingest_status, t.shard_splitter_status, t.shard_worker_status, t.mysql_sender_status))"
}
