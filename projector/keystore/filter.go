package keystore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/parquet-go/parquet-go/bloom"

	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// DefaultFilterMemory bounds the filters of stores that share a FilterMemory, and
// that of one that shares none, in bytes.
const DefaultFilterMemory = 64 << 20

const (
	// filterBits is how many bits a filter has for each identity. A full one passes
	// one in a hundred unknown identities on to the database.
	filterBits = 10
	// readAhead is how many identities of a store that was there already the
	// filter reads for each one that is folded.
	readAhead = 4
)

var (
	// filterPart is how many identities the first part of a filter is made for;
	// each further part has twice the size of the one before. Tests need fewer.
	filterPart uint64 = 1 << 20
	// readStep is how many identities are read at once; tests need fewer.
	readStep = 10_000
)

// FilterMemory bounds what the filters of several stores take together. It may be
// used by all of them at one time.
type FilterMemory struct{ left atomic.Int64 }

// NewFilterMemory returns a bound in bytes. Ten bits serve for an identity.
func NewFilterMemory(bytes int64) *FilterMemory {
	m := new(FilterMemory)
	m.left.Store(bytes)
	return m
}

func (m *FilterMemory) take(bytes int64) bool {
	if m.left.Add(-bytes) >= 0 {
		return true
	}
	m.left.Add(bytes)
	return false
}

// filter tells in memory that the store does not know an identity, which is what
// it has to tell of nearly every event: the database is asked only after the
// others. It covers a part of the identities, in their order, up to one: those
// that were in the store when it was opened are read little by little, while
// others are folded. When its memory is used up it is wrong more often, and more
// identities are looked up in the database.
//
// A bit is set in each word of one block of 32 bytes for an identity, which the
// beginning of the identity chooses: so a sorted batch goes through the filter from
// its beginning to its end.
//
// It is written and read by Fold and Fill alone, in one goroutine at a time.
type filter struct {
	memory *FilterMemory
	parts  []bloom.SplitBlockFilter
	taken  int64  // bytes of memory
	size   uint64 // identities that the last part is made for
	room   uint64 // how many more it takes

	whole bool                // it covers every identity
	upTo  checkpoint.Identity // else it covers those before this one
	owed  int                 // identities to be read
}

// start makes the filter of a store that holds so many identities. It covers none
// of them yet, and stays so when there is no memory for half of them.
func (f *filter) start(memory *FilterMemory, held uint64) {
	if memory == nil {
		memory = NewFilterMemory(DefaultFilterMemory)
	}
	f.memory, f.owed = memory, readStep
	if f.extend(max(held, filterPart)); f.size < held/2 {
		f.stop()
	}
}

// extend adds a part for so many identities, or for as many as there is memory
// for. Where there is none, the last part takes more than it was made for.
func (f *filter) extend(identities uint64) {
	for ; identities >= filterPart; identities /= 2 {
		blocks := bloom.NumSplitBlocksOf(int64(identities), filterBits)
		if bytes := int64(blocks) * bloom.BlockSize; f.memory.take(bytes) {
			f.taken += bytes
			f.parts = append(f.parts, make(bloom.SplitBlockFilter, blocks))
			f.size, f.room = identities, identities
			return
		}
	}
	f.room = 1 << 62
}

// stop gives the memory back.
func (f *filter) stop() {
	if f.memory != nil {
		f.memory.take(-f.taken)
	}
	*f = filter{}
}

// covers tells whether the filter knows of an identity, given by its key, when the
// store does.
func (f *filter) covers(key []byte) bool {
	return f.whole || bytes.Compare(key, f.upTo[:]) < 0
}

// lacks tells whether the store holds neither an identity nor an alias of it. The
// key is that of either.
func (f *filter) lacks(key []byte) bool {
	if !f.covers(key) {
		return false
	}
	hash := filterHash(key)
	for _, part := range f.parts {
		if part.Check(hash) {
			return false
		}
	}
	return true
}

// add has the filter know of an identity, given by its key, which is being
// written. What it does not cover it reads later.
func (f *filter) add(key []byte) {
	if f.covers(key) {
		f.set(key)
	}
}

func (f *filter) set(key []byte) {
	if f.room == 0 {
		f.extend(2 * f.size)
	}
	f.room--
	f.parts[len(f.parts)-1].Insert(filterHash(key))
}

// filterHash is what a filter knows of a key: the beginning of the identity, which is
// one of a hash.
func filterHash(key []byte) uint64 { return binary.BigEndian.Uint64(key) }

// read reads what is owed to so many identities that are folded.
func (f *filter) read(db *pebble.DB, folded int) (err error) {
	if f.whole || len(f.parts) == 0 {
		return nil
	}
	if f.owed += readAhead * folded; f.owed < readStep {
		return nil
	}
	rest, err := db.NewIter(&pebble.IterOptions{LowerBound: f.upTo[:]})
	if err != nil {
		return fmt.Errorf("read key store: %w", err)
	}
	for ok := rest.First(); ok && f.owed > 0; ok = rest.Next() {
		if key := rest.Key(); len(key) >= len(f.upTo) { // else it is the store's own
			f.set(key)
			f.upTo = checkpoint.Identity(key[:len(f.upTo)])
			f.owed--
		}
	}
	f.whole = !rest.Valid()
	if err := rest.Close(); err != nil {
		f.whole = false
		return fmt.Errorf("read key store: %w", err)
	}
	return nil
}
