package keystore

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/internal/diskroom"
)

// ErrFull is the error of calls that waited for room on a full disk until the
// store's context ended. The store is of no use then; all that is in it is
// still there when it is opened again.
var ErrFull = diskroom.ErrFull

var (
	// ErrDamaged is the error of a store whose files are not what they should
	// be, or that cannot prove that it knows what it has to.
	ErrDamaged = errors.New("the key store is damaged")
	// ErrDisagrees is the error of a store whose files are sound, and that knows other
	// identities than the stream delivers, or than the checkpoint says were counted.
	// The store cannot tell which of them is damaged.
	ErrDisagrees = errors.New("the key store does not agree with the stream and the checkpoint")
	// ErrUnproven is the error of a store that an older millrace has written.
	ErrUnproven = errors.New("the key store does not say how many identities it must hold: an older millrace has " +
		"written it")
)

// IsDamaged tells whether an error says that the store can't be believed: its
// files are not what they should be, nothing proves that they are, or they
// contradict the stream or the checkpoint. Such a store is to be replaced by an empty one, and filled again.
func IsDamaged(err error) bool {
	return err != nil && (errors.Is(err, ErrDamaged) || errors.Is(err, ErrDisagrees) || errors.Is(err, ErrUnproven) ||
		pebble.IsCorruptionError(err))
}

// asDamage makes an error of damage of one that opening has ended with, unless
// the system has refused something: what the database does not want to read is
// of no use, and easily made again.
func asDamage(err error) error {
	var refused syscall.Errno
	if errors.Is(err, ErrFull) || errors.As(err, &refused) && refused != syscall.ENOENT {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// damage keeps what the database has found, whoever has read it.
type damage struct {
	first atomic.Pointer[pebble.DataCorruptionInfo]
}

func (d *damage) note(info pebble.DataCorruptionInfo) { d.first.CompareAndSwap(nil, &info) }

func (d *damage) found() error {
	if info := d.first.Load(); info != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, info.Path, info.Details)
	}
	return nil
}
