package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/outbox"
	"github.com/millrace-io/millrace/schemas/source"
	"github.com/millrace-io/millrace/schemas/stream"
)

// ErrNotFound is the error of a source that does not exist.
var ErrNotFound = errors.New("there is no such source")

// Store keeps sources. It is safe for concurrent use; the pool is the caller's.
type Store struct {
	pool   *pgxpool.Pool
	outbox *outbox.Outbox
}

// New returns a store. It asks nothing of the database.
func New(pool *pgxpool.Pool) (*Store, error) {
	if pool == nil {
		return nil, errors.New("sources: a connection pool is needed")
	}
	return &Store{pool, outbox.New(stream.Sources)}, nil
}

// Outbox has the events that are not on the stream yet.
func (s *Store) Outbox() *outbox.Outbox { return s.outbox }

// Pool is the pool that the store works on.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// change is a transaction with the events that it commits with.
type change struct {
	acts.Tx
	now    time.Time // of the database, when the transaction began
	events []outbox.Message
	err    error // the first of an event that cannot be written
}

// transact commits what do does, together with its events.
func (s *Store) transact(ctx context.Context, what string, do func(*change) error) error {
	told := false
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		told, err = s.within(ctx, tx, do)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if told {
		s.outbox.Wake()
	}
	return nil
}

// within does what do does in a transaction of the caller's, who wakes the outbox after the
// commit if there are events.
func (s *Store) within(ctx context.Context, tx acts.Tx, do func(*change) error) (told bool, err error) {
	c := &change{Tx: tx}
	if err := tx.QueryRow(ctx, "SELECT now()").Scan(&c.now); err != nil {
		return false, err
	}
	c.now = c.now.UTC()
	if err := do(c); err != nil {
		return false, err
	}
	return len(c.events) > 0, errors.Join(c.err, s.outbox.Add(ctx, tx, c.events))
}

// tell adds an event.
func (c *change) tell(kind string, id uuid.UUID, payload any) {
	e := source.Event{ID: uuid.New(), Type: kind, SourceID: id, Timestamp: c.now, Payload: payload}
	body, err := json.Marshal(e)
	if err != nil {
		c.err = errors.Join(c.err, fmt.Errorf("write an event of the source %s: %w", id, err))
		return
	}
	c.events = append(c.events, outbox.Message{
		Key: id.String(), Subject: stream.SourceSubject(kind), ID: e.ID.String(), Body: body,
	})
}

// Create makes a source.
func (s *Store) Create(ctx context.Context, f source.Fields) (made source.CrawlSource, err error) {
	err = s.transact(ctx, "create a source", func(c *change) error {
		all, err := c.insert(ctx, []source.Fields{f})
		if err == nil {
			made = all[0]
		}
		return err
	})
	return made, err
}

// Get returns a source, or ErrNotFound.
func (s *Store) Get(ctx context.Context, id uuid.UUID) (source.CrawlSource, error) {
	all, err := read(ctx, s.pool, "WHERE id = $1", id)
	if err == nil && len(all) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return source.CrawlSource{}, fmt.Errorf("read the source %s: %w", id, err)
	}
	return all[0], nil
}

// Update changes the fields that a draft gives, which breaks no rule, and returns
// the source as it is then. It returns ErrNotFound if there is none.
func (s *Store) Update(ctx context.Context, id uuid.UUID, d *source.Draft) (source.CrawlSource, error) {
	return s.edit(ctx, id, d.Over, source.UserRequested)
}

// Toggle enables or disables a source and returns it as it is then, or ErrNotFound.
func (s *Store) Toggle(ctx context.Context, id uuid.UUID, enabled bool, reason string) (source.CrawlSource, error) {
	return s.edit(ctx, id, toggled(enabled), reason)
}

func toggled(enabled bool) func(source.Fields) source.Fields {
	return func(f source.Fields) source.Fields {
		f.Enabled = enabled
		return f
	}
}

func (s *Store) edit(
	ctx context.Context, id uuid.UUID, to func(source.Fields) source.Fields, reason string,
) (now source.CrawlSource, err error) {
	err = s.transact(ctx, "change the source "+id.String(), func(c *change) error {
		found, err := c.lock(ctx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		was, ok := found[id]
		if !ok {
			return ErrNotFound
		}
		all, err := c.update(ctx, []edit{{was, to(was.Fields)}}, reason)
		if err == nil {
			now = all[0]
		}
		return err
	})
	return now, err
}

// Delete deletes a source, or returns ErrNotFound.
func (s *Store) Delete(ctx context.Context, id uuid.UUID, reason string) error {
	missing, err := s.Bulk(ctx, OpDelete, []uuid.UUID{id}, reason)
	if err == nil && missing[id] {
		err = fmt.Errorf("delete the source %s: %w", id, ErrNotFound)
	}
	return err
}

// Operations on many sources.
const (
	OpEnable  = "enable"
	OpDisable = "disable"
	OpDelete  = "delete"
)

// Operations are all of them.
var Operations = []string{OpEnable, OpDisable, OpDelete}

// Bulk enables, disables or deletes sources in one transaction, and returns which
// of them do not exist.
func (s *Store) Bulk(
	ctx context.Context, operation string, ids []uuid.UUID, reason string,
) (missing map[uuid.UUID]bool, err error) {
	err = s.transact(ctx, fmt.Sprintf("%s %d sources", operation, len(ids)), func(c *change) (err error) {
		missing, err = c.bulk(ctx, operation, ids, reason)
		return err
	})
	return missing, err
}

func (c *change) bulk(
	ctx context.Context, operation string, ids []uuid.UUID, reason string,
) (missing map[uuid.UUID]bool, err error) {
	found, err := c.lock(ctx, ids)
	if err != nil {
		return nil, err
	}
	var all []source.CrawlSource
	missing = map[uuid.UUID]bool{}
	for _, id := range ids {
		if was, ok := found[id]; ok {
			all = append(all, was)
			delete(found, id) // named twice, it is done once
		} else if !slices.ContainsFunc(all, func(s source.CrawlSource) bool { return s.ID == id }) {
			missing[id] = true
		}
	}
	if operation == OpDelete {
		return missing, c.remove(ctx, all, reason)
	}
	edits := make([]edit, len(all))
	for i, was := range all {
		edits[i] = edit{was, toggled(operation == OpEnable)(was.Fields)}
	}
	_, err = c.update(ctx, edits, reason)
	return missing, err
}
