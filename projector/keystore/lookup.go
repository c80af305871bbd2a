package keystore

import (
	"errors"
	"fmt"
	"slices"
)

// Lookup returns those of the sightings whose identity is known, in no order. It
// may run beside the other methods, but for Close, and reorders the slice.
func (s *Store) Lookup(sightings []Sighting) (known []Repeat, err error) {
	for i := range sightings {
		sightings[i].row = int32(i)
	}
	slices.SortFunc(sightings, byIdentity)
	err = s.disk.Do(func() (err error) {
		known, err = s.lookup(sightings)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up in key store: %w", err)
	}
	return known, nil
}

func (s *Store) lookup(sightings []Sighting) (known []Repeat, err error) {
	all, err := s.look()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	for i := range sightings {
		now := &sightings[i]
		first, err := all.find(now)
		if err != nil {
			return nil, err
		}
		if first.seq != 0 {
			known = append(known, Repeat{
				Row: now.row, Conflict: first.fingerprint.Conflicts(now.fingerprint),
				First: first.seq,
			})
		}
	}
	return known, nil
}
