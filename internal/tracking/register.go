package tracking

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

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
	err := s.transact(ctx, fmt.Sprintf("register %d files", len(files)), func(t *tx) error {
		for i, f := range files {
			t.batch.Queue("INSERT INTO millrace.file (filename, priority) VALUES ($1, $2) ON CONFLICT DO NOTHING", f.Filename, f.Priority)
			// The file's row says that nobody cancels or drops it meanwhile.
			t.batch.Queue("SELECT 1 FROM millrace.file WHERE filename = $1 FOR SHARE", f.Filename)
			t.batch.Queue(sql, f.Filename, f.Shards).QueryRow(func(r pgx.Row) error {
				var cancelled *bool
				if err := r.Scan(&made[i], &cancelled); err != nil {
					return err
				}
				if cancelled == nil {
					return errPurged
				}
				if *cancelled && made[i] > 0 {
					return fmt.Errorf("%s: %w", f.Filename, ErrCancelled)
				}
				return nil
			})
		}
		return t.flush(ctx)
	})
	return made, err
}

// errPurged: the file was dropped between two statements; the next try makes it
// anew.
var errPurged = errors.New("the file was purged meanwhile")

// FinishIngest marks the generation of a file as finished: all of its shards
// that are not so yet. It returns their number.
func (s *Store) FinishIngest(ctx context.Context, file string, options Command) (int, error) {
	changed := 0
	err := s.transact(ctx, "finish "+file, func(t *tx) error {
		w := s.newWork(t, shard.EventIngest, shard.Complete)
		if err := w.lockFile(ctx, file); err != nil {
			return err
		}
		commands := make([]Command, len(w.rows))
		for i, r := range w.rows {
			commands[i] = options
			commands[i].ID = r.id
		}
		results, err := w.decide(ctx, commands)
		if err != nil {
			return err
		}
		for _, r := range results {
			if !r.Outcome.OK() {
				return &Refused{r, shard.EventIngest, shard.Complete}
			}
		}
		changed = len(w.changes)
		w.write()
		return nil
	})
	return changed, err
}

// Refused is the error of a call about many items, none of which was changed
// because of one.
type Refused struct {
	Result Result
	Stage  shard.Stage
	Move   shard.Move
}

func (e *Refused) Error() string {
	return fmt.Sprintf("%s of %s/%d at %s: %s, it is %s", e.Move, e.Result.Filename, e.Result.Shard, e.Stage, e.Result.Outcome, e.Result.Status)
}

// lockFile locks all items of a file.
func (w *work) lockFile(ctx context.Context, file string) error {
	collect(w.batch, &w.rows, stages[w.stage].lock+"WHERE t.filename = $1"+inOrder, file)
	if err := w.read(ctx); err != nil {
		return err
	}
	if len(w.rows) == 0 {
		return ErrNoFile
	}
	return nil
}
