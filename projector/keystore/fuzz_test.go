package keystore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// FuzzRecord: whatever the store has for an identity is read as what it says, or
// as damage.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{7, 15: 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, record []byte) {
		s, err := openIn(t.Context(), vfs.NewMem(), "keys", Options{})
		if err != nil {
			t.Fatal(err)
		}
		id := idOf(1)
		if err := s.db.Set(id[:], record, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		found, err := s.compare([]Sighting{See(id, 1, 7)}, nil, false)
		sound := len(record) == recordSize && binary.LittleEndian.Uint64(record) != 0
		if damaged := errors.Is(err, ErrDamaged); damaged == sound ||
			sound && (err != nil || (len(found.repeats) == 0) != (binary.LittleEndian.Uint64(record) == 7)) {
			t.Errorf("record %x: repeats %v, %v", record, found.repeats, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzLedger: what is read as a ledger is written the same; the position of an
// older millrace is told from damage.
func FuzzLedger(f *testing.F) {
	f.Add(make([]byte, 8))
	f.Add(ledger{applied: 3}.mark(3, checkpoint.Sum{Count: 2}).encode())
	f.Fuzz(func(t *testing.T, value []byte) {
		l, err := parseLedger(value)
		if errors.Is(err, ErrUnproven) != (len(value) == 8) || err != nil && !IsDamaged(err) {
			t.Errorf("%x: %v", value, err)
		}
		if err == nil && !bytes.Equal(l.encode(), value) {
			t.Errorf("%x is written as %x", value, l.encode())
		}
	})
}

// FuzzContent: what is read as a table's content is written the same.
func FuzzContent(f *testing.F) {
	f.Add((&content{ids: checkpoint.Sum{Count: 2}, first: []byte("a"), last: []byte("b")}).appendTo(nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		if c, err := parseContent(value); err == nil && !bytes.Equal(c.appendTo(nil), value) {
			t.Errorf("%x is written as %x", value, c.appendTo(nil))
		}
	})
}
