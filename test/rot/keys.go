package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// keysPart is the key store of a projector.
type keysPart struct{}

const (
	keysDir    = "keys"
	keyBatches = 12
	keyBatch   = 400 // identities
)

func (keysPart) name() string { return "keys" }

func (keysPart) files(dir string) ([]string, error) { return filesOf(dir) }

func (keysPart) store(string) string { return "key store" }

// identity returns the identity of the nth event.
func idOf(n uint64) (id checkpoint.Identity) {
	binary.BigEndian.PutUint64(id[:], n*0x9e3779b97f4a7c15) // spread over all tables
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

func openKeys(ctx context.Context, dir string, said *lines) (*keystore.Store, error) {
	return keystore.Open(ctx, filepath.Join(dir, keysDir), keystore.Options{
		MemTableBytes: 64 << 10, Logger: slog.New(said),
	})
}

// fill folds batches, of which the first are in tables.
func (keysPart) fill(ctx context.Context, dir, killed string) error {
	for life := range 3 {
		s, err := openKeys(ctx, dir, &lines{})
		if err != nil {
			return err
		}
		for b := life * keyBatches / 3; b < (life+1)*keyBatches/3; b++ {
			if _, err := s.Fold(sightings(b), uint64(b*keyBatch), uint64((b+1)*keyBatch)); err != nil {
				return errors.Join(err, s.Close())
			}
		}
		if life == 2 {
			if err := errors.Join(s.Sync(), copyStill(killed, dir)); err != nil {
				return errors.Join(err, s.Close())
			}
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

func sightings(batch int) (all []keystore.Sighting) {
	for i := range keyBatch {
		seq := uint64(batch*keyBatch + i + 1)
		all = append(all, keystore.See(idOf(seq), checkpoint.Fingerprint(seq), seq))
	}
	return all
}

// known is what the checkpoint says that the store knows.
func known() (sum checkpoint.Sum) {
	for seq := uint64(1); seq <= keyBatches*keyBatch; seq++ {
		sum.AddID(idOf(seq))
	}
	return sum
}

// open opens the store as a projector does: it compares it with the checkpoint,
// and fills a new one if the store is damaged or is behind.
func (keysPart) open(ctx context.Context, dir string) (f finding, err error) {
	said := &lines{}
	defer func() { f.Said = append(f.Said, said.all...) }()
	s, err := openKeys(ctx, dir, said)
	if err != nil {
		return damaged(f, err)
	}
	defer func() {
		if closed := s.Close(); closed != nil {
			f.Said = append(f.Said, "close the key store: "+closed.Error())
		}
	}()
	const end = keyBatches * keyBatch
	if at := s.Applied(); at < end {
		return finding{Said: []string{fmt.Sprintf("the key store ends at sequence %d: it is filled from there", at)}}, nil
	}
	have, err := s.Known(end)
	if err != nil {
		return damaged(f, err)
	}
	if have != known() {
		return finding{Said: []string{"the key store does not know what the checkpoint has counted"}}, nil
	}
	f.Facts = facts{}
	for seq := uint64(1); seq <= end; seq++ {
		f.Facts[fmt.Sprint("key store/", seq)] = "unknown"
	}
	// Each identity comes again: the store has to know its first sighting.
	for b := range keyBatches {
		again := sightings(b)
		for i := range again {
			again[i] = keystore.See(idOf(uint64(b*keyBatch+i+1)), 0, uint64(end+b*keyBatch+i+1))
		}
		repeats, err := s.Fold(again, uint64(end+b*keyBatch), uint64(end+(b+1)*keyBatch))
		if err != nil {
			return damaged(f, err)
		}
		for _, r := range repeats {
			f.Facts[fmt.Sprint("key store/", r.First)] = fmt.Sprint(r.First)
		}
	}
	return f, nil
}

// damaged is the finding of an error of a store: one of damage makes the projector
// fill a new one.
func damaged(f finding, err error) (finding, error) {
	text := err.Error()
	if keystore.IsDamaged(err) && !strings.Contains(text, "key store") {
		text = "the key store is damaged: " + text // as the projector says
	}
	f.Said, f.Facts = append(f.Said, text), nil
	return f, nil
}
