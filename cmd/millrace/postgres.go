package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/engines"
	"github.com/millrace-io/millrace/internal/embedded/postgres"
)

// keptPostgres is the embedded Postgres, started again when it ends by itself:
// events go on without it, so the rest of the process tree does too.
type keptPostgres struct {
	*postgres.Server // the first
	cfg              postgres.Config
	log              *slog.Logger
}

func (c *upCmd) embeddedPostgres(log *slog.Logger) (*keptPostgres, error) {
	engine, err := engines.Postgres()
	if err != nil {
		return nil, err
	}
	cfg := postgres.Config{Engine: engine, Dir: filepath.Join(c.Data, "postgres"), Listen: c.PostgresListen}
	first, err := postgres.New(cfg, log)
	return &keptPostgres{first, cfg, log}, err
}

// Run serves until ctx ends. A first server that does not come up is an error.
func (k *keptPostgres) Run(ctx context.Context) error {
	err := k.Server.Run(ctx)
	if k.DSN() == "" {
		return err
	}
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, 30*time.Second) {
		k.log.Error("the embedded Postgres has ended, and is started again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		began := time.Now()
		var next *postgres.Server
		if next, err = postgres.New(k.cfg, k.log); err != nil {
			return err
		}
		if err = next.Run(ctx); time.Since(began) > time.Minute {
			wait = time.Second / 2 // doubled in a moment
		}
	}
	return nil
}
