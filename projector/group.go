package projector

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/projector/checkpoint"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/store"
	"github.com/millrace-io/millrace/schemas/slots"
)

// group is one slot group in the hands of a projector.
type group struct {
	*Projector
	slots.Group
	signed atomic.Pointer[time.Time] // when it last said that it is alive; nil: not yet
}

// sign notes that the group has said that it is alive, unless that failed.
func (g *group) sign(err error) error {
	if err == nil {
		now := time.Now()
		g.signed.Store(&now)
	}
	return err
}

// fold folds the group, which log owns, until ctx ends, another projector
// takes over, or something fails. A key store whose damage shows when it is
// read is replaced as one is that does not open (invariant 2).
func (g *group) fold(ctx context.Context, log *checkpoint.Log) error {
	for {
		err := g.foldOnce(ctx, log)
		if !keystore.IsDamaged(err) || ctx.Err() != nil {
			return err
		}
		if err := g.putAside(err); err != nil {
			return err
		}
	}
}

func (g *group) foldOnce(ctx context.Context, log *checkpoint.Log) (err error) {
	o := g.cfg.KeyStore
	o.Logger = g.log
	keys, err := keystore.Open(ctx, g.keysDir(), o)
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

func (g *group) keysDir() string {
	return filepath.Join(g.cfg.Dir, keysName(g.Group))
}
