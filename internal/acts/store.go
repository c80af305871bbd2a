package acts

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
)

//go:embed sql/*.sql
var texts embed.FS

func text(name string) string { return queue.Text(texts, name) }

// Store keeps acts and works on them. It is safe for concurrent use.
type Store struct {
	queues *queue.Store
	own    *userqueue.Store
	shards *tracking.Store
	errs   *recrawl.Store
	log    *slog.Logger
	begun  chan struct{}
}

// New returns a store on those of the items and of the errors of batches, which share one of
// queues.
func New(own *userqueue.Store, shards *tracking.Store, errs *recrawl.Store, log *slog.Logger) (*Store, error) {
	if own == nil || shards == nil || errs == nil || log == nil {
		return nil, errors.New("acts: the items of both kinds, the errors of batches and a logger are needed")
	}
	return &Store{own.Queues(), own, shards, errs, log.With("component", "acts"), make(chan struct{}, 1)}, nil
}

const columns = `id, move, filter, state, caller, created_at, ended_at, matched, done, skipped, failed, more`

func scan(r pgx.CollectableRow) (a Act, err error) {
	var filter []byte
	err = r.Scan(&a.ID, &a.Move, &filter, &a.State, &a.By, &a.CreatedAt, &a.EndedAt, &a.Matched, &a.Done, &a.Skipped,
		&a.Failed, &a.More)
	if err != nil {
		return a, err
	}
	a.Left = a.Matched - a.Done - a.Skipped - a.Failed
	if a.CreatedAt = a.CreatedAt.UTC(); a.EndedAt != nil {
		*a.EndedAt = a.EndedAt.UTC()
	}
	var of filters
	err = json.Unmarshal(filter, &of)
	a.Filter, a.CrawlErrors = of.ItemFilter, of.CrawlErrors
	return a, err
}

// Get returns an act as it is now, or ErrNoAct.
func (s *Store) Get(ctx context.Context, id int64) (Act, error) {
	return s.one(ctx, "SELECT "+columns+" FROM millrace.act WHERE id = $1", id)
}

func (s *Store) one(ctx context.Context, sql string, args ...any) (Act, error) {
	rows, err := s.queues.Pool().Query(ctx, sql, args...)
	if err == nil {
		var a Act
		if a, err = pgx.CollectExactlyOneRow(rows, scan); err == nil {
			return a, nil
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return Act{}, ErrNoAct
	}
	return Act{}, fmt.Errorf("read an act: %w", err)
}

// List returns up to limit acts, the newest first, of those before one; 0: all.
func (s *Store) List(ctx context.Context, before int64, limit int) ([]Act, error) {
	rows, err := s.queues.Pool().Query(ctx, "SELECT "+columns+
		" FROM millrace.act WHERE $1 = 0 OR id < $1 ORDER BY id DESC LIMIT $2", before, limit)
	if err == nil {
		var all []Act
		if all, err = pgx.CollectRows(rows, scan); err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("list acts: %w", err)
}

// Members returns the members of an act that were not moved, those that failed
// first: the first [Named] with each outcome.
func (s *Store) Members(ctx context.Context, act int64) ([]ActMember, error) {
	rows, err := s.queues.Pool().Query(ctx, text("members"), act)
	if err == nil {
		var all []ActMember
		all, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (m ActMember, err error) {
			return m, r.Scan(&m.Queue, &m.ID, &m.Key, &m.Filename, &m.Shard, &m.JobID, &m.BatchIndex, &m.Position,
				&m.Outcome, &m.Reason)
		})
		if err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("list members of act %d: %w", act, err)
}

// Stop ends an act that runs; what it has done stays done. It returns the act as
// it is then, or ErrNoAct. Stopping one that has ended changes nothing.
func (s *Store) Stop(ctx context.Context, id int64) (Act, error) {
	err := s.queues.Transact(ctx, fmt.Sprintf("stop act %d", id), func(t *queue.Tx) error {
		t.Batch.Queue(
			"UPDATE millrace.act SET state = 'stopped', ended_at = clock_timestamp() WHERE id = $1 AND state = "+
				"'running'", id)
		t.Batch.Queue(`DELETE FROM millrace.act_batch WHERE act_id = $1
			AND EXISTS (SELECT FROM millrace.act WHERE id = $1 AND state = 'stopped')`, id)
		return nil
	})
	if err != nil {
		return Act{}, err
	}
	return s.Get(ctx, id)
}
