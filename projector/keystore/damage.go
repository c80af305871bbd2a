package keystore

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

var errDamaged = errors.New("the key store is damaged")

// IsDamaged tells whether an error says that the store's files are not what
// they should be. Such a store is to be replaced by an empty one.
func IsDamaged(err error) bool {
	return err != nil && (errors.Is(err, errDamaged) || pebble.IsCorruptionError(err))
}

// asDamage makes an error of damage of one that opening has ended with, unless
// the system has refused something: what the database does not want to read is
// of no use, and easily made again.
func asDamage(err error) error {
	var refused syscall.Errno
	if errors.Is(err, ErrFull) || errors.As(err, &refused) && refused != syscall.ENOENT {
		return err
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

// damage keeps what the database has found, whoever has read it.
type damage struct {
	first atomic.Pointer[pebble.DataCorruptionInfo]
}

func (d *damage) note(info pebble.DataCorruptionInfo) { d.first.CompareAndSwap(nil, &info) }

func (d *damage) found() error {
	if info := d.first.Load(); info != nil {
		return fmt.Errorf("%w: %s: %w", errDamaged, info.Path, info.Details)
	}
	return nil
}
