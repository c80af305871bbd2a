package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/pipeline/store"
	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/event"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// fillRows is how many identities are put into the key store at once when it is
// filled; tests need fewer.
var fillRows = 50_000

// see returns the sighting of an event.
func see(id event.Identity, f event.Fingerprint, seq uint64) keystore.Sighting {
	return keystore.See(checkpoint.Identity(id), checkpoint.Fingerprint(f), seq)
}

// keysError is an error of the key store as that of a session. Starting again
// does not mend it, unless the disk was full: somebody makes room.
func keysError(err error) error {
	if err == nil || errors.Is(err, keystore.ErrFull) {
		return err
	}
	return &fold.Stop{Err: err}
}

// proveKeys brings the key store to a position, and proves by the checkpoint
// that it knows what was counted (invariant 10). A store that can't prove it is
// an error of damage.
func (s *session) proveKeys(ctx context.Context, from uint64) error {
	fresh, want := s.keys.Empty(), s.counted
	if want.At > 0 {
		if want.At < from && s.keys.Applied() > want.At {
			return keysError(fmt.Errorf("%w: it has applied %d, and of what lies behind %d not all was counted",
				keystore.ErrDisagrees, s.keys.Applied(), want.At))
		}
		if err := s.reach(ctx, want.At); err != nil {
			return err
		}
		if err := s.agree(want, fresh); err != nil {
			return err
		}
	}
	return s.reach(ctx, from)
}

// reach has the key store say what it knew at a sequence. One that is behind is
// filled. One that is ahead may have seen other ends of batches than the
// projector that went on meanwhile.
func (s *session) reach(ctx context.Context, at uint64) error {
	if s.keys.Applied() < at {
		return s.fillKeys(ctx, at)
	}
	before := s.keys.Before(at)
	if before == at || before == 0 {
		return nil
	}
	var counted []keystore.Sighting
	err := s.db.Retry(ctx, "compare the key store", func(ctx context.Context) error {
		counted = counted[:0]
		return s.db.Identities(ctx, s.group, before, at, func(c store.Counted) error {
			if !c.Alias { // whoever was there first has these, too
				counted = append(counted, see(c.Identity, c.Fingerprint, c.Seq))
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	_, err = s.keys.Fold(counted, before, at)
	return keysError(err)
}

// agree compares the key store with the checkpoint. One that was filled from
// nothing knows what ClickHouse has. When that is not what was counted, the group
// stands still: what is missing would count again, in rows of the funnel that
// have it already, and where a replica lags behind it is there a moment later.
func (s *session) agree(want contract.Known, fresh bool) error {
	known, err := s.keys.Known(want.At)
	switch {
	case err != nil:
		return keysError(err)
	case known == want.Identities:
		return nil
	case !fresh:
		return keysError(fmt.Errorf("%w: of the identities up to sequence %d it knows %s, and the checkpoint "+
			"has counted %s",
			keystore.ErrDisagrees, want.At, known, want.Identities))
	}
	return &lackError{missing: want.Identities.Count - min(want.Identities.Count, known.Count), text: fmt.Sprintf(
		"slot group %d is not folded: up to sequence %d ClickHouse has %d identities (%s), and %d were counted (%s); "+
			"rows of the tables events or retired_identities are missing, or are those of another installation: "+
			"restore them, or, if what is missing may count again, run millrace accept-identities --slot-group=%d "+
			"(docs/recovery.md)",
		s.group.ID, want.At, known.Count, known, want.Identities.Count, want.Identities, s.group.ID)}
}

// lackError says that ClickHouse lacks identities which were counted.
type lackError struct {
	missing uint64
	text    string
}

func (e *lackError) Error() string { return e.text }

// Is implements errors.Is.
func (*lackError) Is(target error) bool { return target == errRowsMissing }

// know has the checkpoint say what has been counted up to a position.
func (s *session) know(at uint64) error {
	identities, err := s.keys.Known(at)
	if err != nil {
		return keysError(err)
	}
	s.checkpoint.Know(contract.Known{At: at, Identities: identities})
	return nil
}

// fillKeys reads the identities that the key store lacks from ClickHouse, those
// of retired events among them.
func (s *session) fillKeys(ctx context.Context, upTo uint64) error {
	applied := s.keys.Applied()
	s.log.Info("filling the key store", "from", applied, "to", upTo)
	var batch []keystore.Sighting
	var broken error // of the key store, which asking ClickHouse again does not mend
	fill := func(upTo uint64) error {
		broken = s.keys.Fill(batch, upTo)
		batch = batch[:0]
		return keysError(broken)
	}
	err := s.db.Retry(ctx, "fill the key store", func(ctx context.Context) error {
		batch = batch[:0]
		err := s.db.Identities(ctx, s.group, applied, upTo, func(c store.Counted) error {
			sighting := see(c.Identity, c.Fingerprint, c.Seq)
			if c.Alias {
				sighting = sighting.AsAlias()
			}
			if batch = append(batch, sighting); len(batch) < fillRows {
				return nil
			}
			return fill(applied)
		})
		if broken != nil {
			return nil
		}
		return err
	})
	if err = cmp.Or(keysError(broken), err); err != nil {
		return err
	}
	if err := fill(upTo); err != nil {
		return err
	}
	return s.keys.Sync()
}
