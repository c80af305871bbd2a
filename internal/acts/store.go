package acts

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
)

//go:embed sql/*.sql
var texts embed.FS

func text(name string) string { return queue.Text(texts, name) }

// Store keeps acts and works on them. It is safe for concurrent use after Add.
type Store struct {
	queues   *queue.Store
	subjects map[string]Subject
	names    []string // of the subjects
	log      *slog.Logger
	begun    chan struct{}
}

// New returns a store of acts. Systems give it their subjects by Add.
func New(queues *queue.Store, log *slog.Logger) (*Store, error) {
	if queues == nil || log == nil {
		return nil, errors.New("acts: the queues and a logger are needed")
	}
	return &Store{queues, map[string]Subject{}, nil, log.With("component", "acts"), make(chan struct{}, 1)}, nil
}

// Add adds what acts can be about, before the store is used. Acts on subjects that a process
// does not have are left to others.
func (s *Store) Add(of Subject) {
	s.subjects[of.Name()] = of
	s.names = append(s.names, of.Name())
}

// Asked returns what requests for acts have, for each subject that is [Asking], in the order of Add.
func (s *Store) Asked() (all []any) {
	for _, name := range s.names {
		if of, ok := s.subjects[name].(Asking); ok {
			all = append(all, of.Asked())
		}
	}
	return all
}

const columns = `id, subject, move, filter, arguments, state, caller, created_at, ended_at, matched, done, skipped, failed, more`

func scan(r pgx.CollectableRow) (a Act, err error) {
	var filter, arguments []byte
	err = r.Scan(&a.ID, &a.Subject, &a.Move, &filter, &arguments, &a.State, &a.By, &a.CreatedAt, &a.EndedAt, &a.Matched,
		&a.Done, &a.Skipped, &a.Failed, &a.More)
	a.Filter, a.Arguments = filter, arguments
	a.Left = a.Matched - a.Done - a.Skipped - a.Failed
	if a.CreatedAt = a.CreatedAt.UTC(); a.EndedAt != nil {
		*a.EndedAt = a.EndedAt.UTC()
	}
	return a, err
}

// Get returns an act as it is now, or ErrNoAct.
func (s *Store) Get(ctx context.Context, id int64) (Act, error) {
	return s.one(ctx, "SELECT "+columns+" FROM millrace.act WHERE id = $1", id)
}

func (s *Store) one(ctx context.Context, sql string, args ...any) (Act, error) {
	rows, _ := s.queues.Pool().Query(ctx, sql, args...)
	a, err := pgx.CollectExactlyOneRow(rows, scan)
	return a, dbpool.Found(err, ErrNoAct, "read an act")
}

// List returns up to limit acts, the newest first, of those before one; 0: all.
func (s *Store) List(ctx context.Context, before int64, limit int) ([]Act, error) {
	rows, _ := s.queues.Pool().Query(ctx, "SELECT "+columns+
		" FROM millrace.act WHERE $1 = 0 OR id < $1 ORDER BY id DESC LIMIT $2", before, limit)
	return dbpool.Collect(rows, scan, "list acts")
}

// Unmoved is a member of an act that was not moved.
type Unmoved struct {
	Member
	Result
	Details json.RawMessage // an object, as its subject describes it
}

// Members returns the members of an act that were not moved, those that failed
// first: the first [Named] with each outcome. It returns ErrNoAct if there is no such act.
func (s *Store) Members(ctx context.Context, act int64) ([]Unmoved, error) {
	a, err := s.Get(ctx, act)
	if err != nil {
		return nil, err
	}
	of := s.subjects[a.Subject]
	if of == nil {
		return nil, nil
	}
	rows, _ := s.queues.Pool().Query(ctx, text("members"), act)
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (m Unmoved, err error) {
		return m, r.Scan(&m.ID, &m.Part, &m.Outcome, &m.Reason)
	})
	if err != nil {
		return nil, fmt.Errorf("list members of act %d: %w", act, err)
	}
	members := make([]Member, len(all))
	for i, m := range all {
		members[i] = m.Member
	}
	details, err := of.Describe(ctx, members)
	if err != nil {
		return nil, fmt.Errorf("describe members of act %d: %w", act, err)
	}
	for i := range all {
		all[i].Details = details[i]
	}
	return slices.DeleteFunc(all, func(m Unmoved) bool { return m.Details == nil }), nil
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
