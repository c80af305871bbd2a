package tracking

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Config shapes the store. The zero value of a field stands for its default.
type Config struct {
	// Keep is how long finished files stay after their last change; 0: for ever.
	Keep time.Duration
}

// Store keeps files and their shards. It is safe for concurrent use.
type Store struct {
	cfg    Config
	queues *queue.Store
	pool   *pgxpool.Pool
	log    *slog.Logger
}

// New returns the store. Its items move in the queues of another store, which
// has to know the items of Kind. It asks nothing of the database.
func New(cfg Config, queues *queue.Store, log *slog.Logger) (*Store, error) {
	if queues == nil || log == nil {
		return nil, errors.New("shard tracking: the queues and a logger are needed")
	}
	return &Store{cfg: cfg, queues: queues, pool: queues.Pool(), log: log.With("component", "tracking")}, nil
}

// Queues is the store in which the items move.
func (s *Store) Queues() *queue.Store { return s.queues }

// Pool is the pool that the store works on.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Apply makes a move of any number of items at a stage; see queue.Store.Apply.
func (s *Store) Apply(
	ctx context.Context, stage shard.Stage, move item.Move, commands []queue.Command,
) ([]queue.Result, error) {
	return s.queues.Apply(ctx, queue.ID(stage), move, commands)
}

const (
	purgeEvery = time.Minute
	purgeLimit = 2000 // files, so that one turn does not take for long
)

// Run drops finished files that are old enough until ctx ends. Any number of
// processes may run it on the same database.
func (s *Store) Run(ctx context.Context) error {
	if s.cfg.Keep == 0 {
		<-ctx.Done()
		return nil
	}
	return retry.Every(ctx, purgeEvery, func(ctx context.Context) error {
		n, err := s.Purge(ctx, time.Now().Add(-s.cfg.Keep), purgeLimit)
		if n > 0 {
			s.log.Info("finished files were purged", "files", n)
		}
		return err
	}, retry.Warn(s.log, "finished files could not be purged"))
}
