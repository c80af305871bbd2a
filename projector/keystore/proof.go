package keystore

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// prove compares the identities in the store's tables with those that its
// ledger says it holds. A table's properties have the sum of what is in
// it, so that none of it is read. It is called before anything is written.
func (s *Store) prove() error {
	if err := s.db.Flush(); err != nil { // what the log had, should opening have left it in memory
		return fmt.Errorf("flush key store: %w", err)
	}
	levels, err := s.db.SSTables(pebble.WithProperties())
	if err != nil {
		return asDamage(err)
	}
	var held checkpoint.Sum
	for _, tables := range levels {
		for i := range tables {
			content, err := contentOf(&tables[i])
			if err != nil {
				return fmt.Errorf("%w: table %s: %w", ErrDamaged, tables[i].FileNum, err)
			}
			held = held.Plus(content.ids)
		}
	}
	if held != s.held {
		return fmt.Errorf("%w: its tables hold the identities %s, and its ledger has %s", ErrDamaged, held, s.held)
	}
	return nil
}

// content is what a table's properties say of its keys.
type content struct {
	ids         checkpoint.Sum
	first, last []byte
}

// property is the name under which tables have their content.
const property = "millrace.identities"

// contentOf returns what a table says that it has. Its bounds must be those that
// the database knows: in a table that took another one's name keys would be
// looked for in vain.
func contentOf(t *pebble.SSTableInfo) (c content, err error) {
	value, ok := t.Properties.UserProperties[property]
	if !ok || len(value) < 1 {
		return c, fmt.Errorf("it does not say which identities it has")
	}
	if c, err = parseContent([]byte(value[1:])); err != nil { // the first byte is the database's
		return c, err
	}
	if !bytes.Equal(c.first, t.Smallest.UserKey) || !bytes.Equal(c.last, t.Largest.UserKey) {
		return c, fmt.Errorf("it has the keys from %x to %x, and should have those from %x to %x",
			c.first, c.last, t.Smallest.UserKey, t.Largest.UserKey)
	}
	return c, nil
}

func (c *content) appendTo(b []byte) []byte {
	b, _ = c.ids.AppendBinary(b) // never fails
	b = append(b, byte(len(c.first)))
	b = append(b, c.first...)
	return append(b, c.last...)
}

func parseContent(b []byte) (c content, err error) {
	const head = checkpoint.SumBytes + 1
	if len(b) < head || len(b) < head+int(b[head-1]) {
		return c, fmt.Errorf("%d bytes say which identities it has", len(b))
	}
	err = c.ids.UnmarshalBinary(b[:head-1])
	c.first, c.last = b[head:head+int(b[head-1])], b[head+int(b[head-1]):]
	return c, err
}

// collector sums up the content of a table while it is written.
type collector struct{ content }

func newCollector() pebble.BlockPropertyCollector { return new(collector) }

func (*collector) Name() string { return property }

// AddPointKey implements pebble.BlockPropertyCollector. An identity is written
// once, since only unknown ones are, and never deleted: the tables together have
// each of them once, however they are merged and split. Aliases have longer keys,
// and count in no sum.
func (c *collector) AddPointKey(key pebble.InternalKey, _ []byte) error {
	if id := key.UserKey; len(id) == len(checkpoint.Identity{}) {
		c.ids.AddID(checkpoint.Identity(id))
	}
	if c.first == nil {
		c.first = bytes.Clone(key.UserKey)
	}
	c.last = append(c.last[:0], key.UserKey...)
	return nil
}

// FinishTable implements pebble.BlockPropertyCollector.
func (c *collector) FinishTable(buf []byte) ([]byte, error) { return c.appendTo(buf), nil }

// AddRangeKeys implements pebble.BlockPropertyCollector; there are none.
func (*collector) AddRangeKeys(sstable.Span) error { return nil }

// FinishDataBlock implements pebble.BlockPropertyCollector. Blocks have no
// properties of their own.
func (*collector) FinishDataBlock(buf []byte) ([]byte, error) { return buf, nil }

// AddPrevDataBlockToIndexBlock implements pebble.BlockPropertyCollector.
func (*collector) AddPrevDataBlockToIndexBlock() {}

// FinishIndexBlock implements pebble.BlockPropertyCollector.
func (*collector) FinishIndexBlock(buf []byte) ([]byte, error) { return buf, nil }

// AddCollectedWithSuffixReplacement implements pebble.BlockPropertyCollector;
// identities have no suffixes.
func (*collector) AddCollectedWithSuffixReplacement([]byte, []byte, []byte) error {
	return fmt.Errorf("keys of identities have no suffix")
}

// SupportsSuffixReplacement implements pebble.BlockPropertyCollector.
func (*collector) SupportsSuffixReplacement() bool { return false }
