package projector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/projector/checkpoint"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/layout"
	"github.com/millrace-io/millrace/projector/store"
)

// group is one slot group in the hands of a projector.
type group struct {
	*Projector
	layout.Group
}

// fold folds the group, which log owns, until ctx ends, another projector
// takes over, or something fails.
func (g *group) fold(ctx context.Context, log *checkpoint.Log) (err error) {
	keys, err := g.openKeys()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keys.Close()) }()
	db, err := store.Open(g.ch, g.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return g.lead(ctx, log, keys, db)
}

// openKeys opens the group's key store. A damaged one is put aside: it is
// filled again from the events table.
func (g *group) openKeys() (*keystore.Store, error) {
	dir := filepath.Join(g.cfg.Dir, "keys")
	if g.Of > 1 {
		dir = fmt.Sprintf("%s-%d", dir, g.Number)
	}
	o := g.cfg.KeyStore
	o.Logger = g.log
	keys, err := keystore.Open(dir, o)
	if !keystore.IsDamaged(err) {
		return keys, err
	}
	aside := fmt.Sprintf("%s.damaged-%d", dir, time.Now().Unix())
	g.log.Error("the key store is damaged, filling a new one from the events table", "error", err, "aside", aside)
	if err := os.Rename(dir, aside); err != nil {
		return nil, fmt.Errorf("put damaged key store aside: %w", err)
	}
	return keystore.Open(dir, o)
}
