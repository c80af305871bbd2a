package tracking

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Registration asks for an item for each shard of a file.
type Registration struct {
	Filename string
	Shards   []int32
	Priority int16 // of a file that is new: 0 to 9, higher goes first
}

// Errors that concern a file as a whole.
var (
	ErrNoFile    = errors.New("there is no such file")
	ErrCancelled = errors.New("the file was cancelled")
)

// Register makes the items that are missing and leaves the others as they are.
// It returns how many it made of each file, all or none. New shards of a
// cancelled file are refused with ErrCancelled.
func (s *Store) Register(ctx context.Context, files []Registration) ([]int, error) {
	made := make([]int, len(files))
	sql := text("register")
	err := s.queues.Transact(ctx, fmt.Sprintf("register %d files", len(files)), func(t *queue.Tx) error {
		traced := t.TraceAdded(ctx, "shards")
		for i, f := range files {
			t.Batch.Queue("INSERT INTO millrace.file (filename, priority) VALUES ($1, $2) ON CONFLICT DO NOTHING",
				f.Filename, f.Priority)
			// The file's row says that nobody cancels or drops it meanwhile.
			t.Batch.Queue("SELECT 1 FROM millrace.file WHERE filename = $1 FOR SHARE", f.Filename)
			t.Batch.Queue(sql, f.Filename, f.Shards, traced).QueryRow(func(r pgx.Row) error {
				var cancelled *bool
				if err := r.Scan(&made[i], &cancelled); err != nil {
					return err
				}
				if cancelled == nil {
					return queue.ErrAgain // the file was dropped between two statements
				}
				if *cancelled && made[i] > 0 {
					return fmt.Errorf("%s: %w", f.Filename, ErrCancelled)
				}
				return nil
			})
		}
		return t.Flush(ctx)
	})
	return made, err
}

// FinishIngest marks the generation of a file as finished: all of its shards
// that are not so yet. It returns their number.
func (s *Store) FinishIngest(ctx context.Context, file string, options queue.Command) (int, error) {
	changed := 0
	err := s.queues.Transact(ctx, "finish "+file, func(t *queue.Tx) error {
		w, items, err := lockFile(ctx, t, shard.EventIngest, item.Complete, file)
		if err != nil {
			return err
		}
		commands := make([]queue.Command, len(items))
		for i, r := range items {
			commands[i] = options
			commands[i].ID = r.ID
		}
		results, err := w.Apply(ctx, commands)
		if err != nil {
			return err
		}
		for _, r := range results {
			if !r.Outcome.OK() {
				return &Refused{r, shard.EventIngest, item.Complete}
			}
		}
		changed = w.Changed()
		return nil
	})
	return changed, err
}

// Refused is the error of a call about many items, none of which was changed
// because of one.
type Refused struct {
	Result queue.Result
	Stage  shard.Stage
	Move   item.Move
}

func (e *Refused) Error() string {
	return fmt.Sprintf("%s of %s/%d at %s: %s, it is %s", e.Move, e.Result.Name, e.Result.Part, e.Stage,
		e.Result.Outcome, e.Result.Status)
}

// lockFile locks all items of a file, to be moved at a stage.
func lockFile(
	ctx context.Context, t *queue.Tx, stage shard.Stage, move item.Move, file string,
) (*queue.Work, []queue.Result, error) {
	w, err := t.Work(queue.ID(stage), move)
	if err != nil {
		return nil, nil, err
	}
	items, err := w.Lock(ctx, "t.filename = $1", file)
	if err == nil && len(items) == 0 {
		err = ErrNoFile
	}
	return w, items, err
}
