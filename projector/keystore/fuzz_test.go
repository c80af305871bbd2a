package keystore

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// FuzzRecord: whatever the store has for an identity, and for its position, is
// read as what it says, or as damage.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{7, 0, 0, 0, 0, 0, 0, 0}, []byte{9, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{}, []byte{1})
	f.Fuzz(func(t *testing.T, record, position []byte) {
		files := vfs.NewMem()
		s, err := openIn(t.Context(), files, "keys", Options{})
		if err != nil {
			t.Fatal(err)
		}
		id := identity(1)
		for _, kv := range [][2][]byte{{id[:], record}, {appliedKey, position}} {
			if err := s.db.Set(kv[0], kv[1], pebble.Sync); err != nil {
				t.Fatal(err)
			}
		}
		at, err := s.loadApplied()
		if damaged := errors.Is(err, errDamaged); damaged != (len(position) != 8) || !damaged && (err != nil || at != binary.LittleEndian.Uint64(position)) {
			t.Errorf("position %x is read as %d, %v", position, at, err)
		}
		known, err := s.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
		if err != nil {
			t.Fatal(err)
		}
		repeated, err := s.merge([]Sighting{See(id, 7)}, known, nil)
		if damaged := errors.Is(err, errDamaged); damaged != (len(record) != 8) || !damaged && (err != nil || (len(repeated) == 0) != (binary.LittleEndian.Uint64(record) == 7)) {
			t.Errorf("record %x: repeated %v, %v", record, repeated, err)
		}
		if err := errors.Join(known.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	})
}
