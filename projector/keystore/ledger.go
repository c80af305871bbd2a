package keystore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// ledger is what the store says of itself. Each commit writes it together with
// the identities, so that it is as old as they are.
type ledger struct {
	applied uint64         // up to here the store knows every identity
	held    checkpoint.Sum // of every identity in the store
	marks   []mark         // the last ones written, the newest last
}

// mark says which identities had been seen first at sequences up to one.
type mark struct {
	at    uint64
	known checkpoint.Sum
}

// ledgerKey is shorter than an identity and so can't be one. Stores without a
// sum have their position there, in 8 bytes.
var ledgerKey = []byte("applied")

const (
	// maxMarks is how many marks are kept. The checkpoint is at most two
	// batches behind the store, and later ones may be folded again in other bounds.
	maxMarks     = 8
	ledgerBytes  = 8 + checkpoint.SumBytes // without marks
	markBytes    = 8 + checkpoint.SumBytes
	unprovenSize = 8
)

// mark returns the ledger with another mark.
func (l ledger) mark(at uint64, known checkpoint.Sum) ledger {
	marks := make([]mark, 0, maxMarks)
	for _, m := range l.marks {
		if m.at != at {
			marks = append(marks, m)
		}
	}
	l.marks = append(marks[max(0, len(marks)-maxMarks+1):], mark{at, known})
	return l
}

// known returns the sum of the identities up to a sequence.
func (l ledger) known(at uint64) (known checkpoint.Sum, ok bool) {
	for _, m := range l.marks {
		if m.at == at {
			return m.known, true
		}
	}
	return checkpoint.Sum{}, at == 0
}

func (l ledger) encode() []byte {
	b := make([]byte, 0, ledgerBytes+len(l.marks)*markBytes)
	b = appendMark(b, mark{l.applied, l.held})
	for _, m := range l.marks {
		b = appendMark(b, m)
	}
	return b
}

func appendMark(b []byte, m mark) []byte {
	b, _ = m.known.AppendBinary(binary.LittleEndian.AppendUint64(b, m.at)) // never fails
	return b
}

func parseLedger(b []byte) (l ledger, err error) {
	if len(b) == unprovenSize {
		return l, ErrUnproven
	}
	if len(b) < ledgerBytes || (len(b)-ledgerBytes)%markBytes != 0 || (len(b)-ledgerBytes)/markBytes > maxMarks {
		return l, fmt.Errorf("%w: its ledger has %d bytes", ErrDamaged, len(b))
	}
	first, err := parseMark(b)
	l.applied, l.held = first.at, first.known
	for b = b[ledgerBytes:]; len(b) > 0 && err == nil; b = b[markBytes:] {
		var m mark
		m, err = parseMark(b)
		l.marks = append(l.marks, m)
	}
	return l, err
}

func parseMark(b []byte) (m mark, err error) {
	m.at = binary.LittleEndian.Uint64(b)
	err = m.known.UnmarshalBinary(b[8:markBytes])
	return m, err
}

func (s *Store) loadLedger() (l ledger, err error) {
	value, closer, err := s.db.Get(ledgerKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("read key store position: %w", err)
	}
	defer closer.Close()
	return parseLedger(value)
}

// loadAliases finds out whether there are aliases.
func (s *Store) loadAliases() error {
	_, closer, err := s.db.Get(aliasesKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read whether the key store has aliases: %w", err)
	}
	s.aliases.Store(true)
	return closer.Close()
}
