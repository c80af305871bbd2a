package keystore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// recordSize is that of an identity's value: the sequence and the fingerprint.
const recordSize = 16

// aliasMark ends the key of an alias, behind the identity. Where there are any,
// the store has aliasesKey, which is shorter than an identity.
const aliasMark = 1

var aliasesKey = []byte("aliases")

// Sighting is an identity at a stream sequence.
type Sighting struct {
	hi, lo      uint64 // the identity, big-endian, so that it sorts as in the database
	seq         uint64
	fingerprint checkpoint.Fingerprint
	row         int32
	alias       bool
}

// See returns the sighting of an identity at a sequence. Its fingerprint is 0
// where it is not known.
func See(id checkpoint.Identity, fingerprint checkpoint.Fingerprint, seq uint64) Sighting {
	return Sighting{
		hi: binary.BigEndian.Uint64(id[:8]), lo: binary.BigEndian.Uint64(id[8:]), fingerprint: fingerprint, seq: seq,
	}
}

// AsAlias returns the sighting as that of an identity under which an event, which
// has another one, may have been published as well. It is known from then on, and
// counts in no sum. Only Fill takes one.
func (s Sighting) AsAlias() Sighting {
	s.alias = true
	return s
}

// Repeat is a sighting that is not the first of its identity.
type Repeat struct {
	Row      int32  // its place in the batch
	Conflict bool   // it is of another event than the first one
	First    uint64 // sequence of the first one
}

// Fold takes the sightings of the batch (from, upTo], in the order of the
// stream, and returns those that are not the first of their identity, in no
// order. It remembers the first ones and that the store knows everything up to
// upTo. Folding the same batch again gives the same answer.
// What is known at from has to be known.
//
// What it has written survives a crash of the process at once, and one of the
// machine after Sync. Fold reorders the slice.
func (s *Store) Fold(sightings []Sighting, from, upTo uint64) (repeats []Repeat, err error) {
	err = s.do(sightings, func() (err error) {
		repeats, err = s.fold(sightings, from, upTo)
		return err
	})
	if err != nil {
		return nil, err
	}
	return repeats, nil
}

// Fill adds identities that were counted before, of sequences beyond Applied,
// and says that the store knows everything up to the sequence upTo. With the
// last ones of many upTo is theirs, and before it is Applied. What it has
// written survives as after Fold.
func (s *Store) Fill(sightings []Sighting, upTo uint64) error {
	return s.do(sightings, func() error { return s.fill(sightings, upTo) })
}

// do sorts sightings and has them written.
func (s *Store) do(sightings []Sighting, write func() error) error {
	for i := range sightings {
		sightings[i].row = int32(i)
	}
	// Sorted, the whole batch is one pass over the database, and one run of
	// inserts in order.
	slices.SortFunc(sightings, byIdentity)
	if err := s.disk.Do(write); err != nil {
		return err
	}
	return s.damage.found() // by whoever reads in the background
}

// byIdentity orders sightings as the database does their identities, and those of
// one identity as they came, aliases last.
func byIdentity(a, b Sighting) int {
	if c := cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo)); c != 0 {
		return c
	}
	if a.alias != b.alias {
		if b.alias {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.row, b.row)
}

func (s *Store) fold(sightings []Sighting, from, upTo uint64) (repeats []Repeat, err error) {
	known, err := s.Known(from)
	if err != nil {
		return nil, err
	}
	batch := s.newBatch(sightings)
	defer batch.Close()
	found, err := s.compare(sightings, batch, false)
	if err != nil {
		return nil, err
	}
	next := s.ledger.mark(upTo, known.Plus(found.first))
	next.applied, next.held = max(upTo, s.applied), s.held.Plus(found.added)
	if known, _ := next.known(upTo); upTo >= s.applied && known != next.held {
		return nil, fmt.Errorf("%w: of the identities up to sequence %d it holds %s, and the stream has delivered %s",
			ErrDisagrees, upTo, next.held, known)
	}
	return found.repeats, s.commit(batch, next)
}

func (s *Store) fill(sightings []Sighting, upTo uint64) error {
	batch := s.newBatch(sightings)
	defer batch.Close()
	found, err := s.compare(sightings, batch, true)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(sightings, func(s Sighting) bool { return s.alias }) {
		if err := batch.Set(aliasesKey, nil, nil); err != nil {
			return fmt.Errorf("write key store: %w", err)
		}
		s.aliases.Store(true)
	}
	next := s.ledger
	next.held = s.held.Plus(found.added)
	if upTo > s.applied {
		next = next.mark(upTo, next.held)
		next.applied = upTo
	}
	return s.commit(batch, next)
}

func (s *Store) newBatch(sightings []Sighting) *pebble.Batch {
	return s.db.NewBatchWithSize(len(sightings)*(recordSize+24) + 512)
}

// found is what comparing sightings with the store has found.
type found struct {
	repeats []Repeat       // those that are not the first
	first   checkpoint.Sum // of the others
	added   checkpoint.Sum // of those among them that were unknown
}

// compare compares sorted sightings with what is known and adds the new ones to
// the batch. When it fills the store, aliases are as good as unknown to the others.
func (s *Store) compare(sightings []Sighting, batch *pebble.Batch, filling bool) (found, error) {
	if err := s.filter.read(s.db, len(sightings)); err != nil {
		return found{}, err
	}
	known, err := s.look()
	if err != nil {
		return found{}, err
	}
	known.aliases, known.filter = known.aliases && !filling, &s.filter
	f, err := merge(sightings, known, batch)
	if err = errors.Join(err, known.Close()); err != nil {
		return f, fmt.Errorf("read key store: %w", err)
	}
	return f, nil
}

func merge(sightings []Sighting, known *reader, batch *pebble.Batch) (f found, err error) {
	var first record // of the current identity
	for i := range sightings {
		now := &sightings[i]
		if i == 0 || now.hi != sightings[i-1].hi || now.lo != sightings[i-1].lo {
			if first, err = known.find(now); err != nil {
				return f, err
			}
			if (first.seq == 0 || first.seq == now.seq) && !now.alias {
				f.first.Add(now.hi, now.lo)
			}
		}
		switch first.seq {
		case 0:
			// An identity is put once: the sums of tables rest on that.
			first = record{now.seq, now.fingerprint}
			if !now.alias {
				f.added.Add(now.hi, now.lo)
			}
			if err := put(batch, now); err != nil {
				return f, err
			}
			known.filter.add(known.key)
		case now.seq:
		default:
			f.repeats = append(f.repeats, Repeat{
				Row: now.row, Conflict: first.fingerprint.Conflicts(now.fingerprint), First: first.seq,
			})
		}
	}
	return f, nil
}

// record is what the store has of an identity.
type record struct {
	seq         uint64 // of its first sighting; no message has 0
	fingerprint checkpoint.Fingerprint
}

// reader looks identities up. Close it.
type reader struct {
	*pebble.Iterator
	filter  *filter // that knows what need not be looked for; nil where nobody writes
	aliases bool    // it looks for aliases, too
	key     []byte
}

func (s *Store) look() (*reader, error) {
	all, err := s.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return nil, fmt.Errorf("read key store: %w", err)
	}
	return &reader{Iterator: all, aliases: s.aliases.Load(), key: make([]byte, 0, 17)}, nil
}

// find looks an identity up, and returns the zero record for one that is not
// known. It does not allocate.
func (r *reader) find(now *Sighting) (first record, err error) {
	r.key = now.appendKey(r.key[:0])
	if r.filter != nil && r.filter.lacks(r.key) {
		return record{}, nil
	}
	if first, err = r.at(r.key); first.seq != 0 || err != nil || !r.aliases || now.alias {
		return first, err
	}
	r.key = append(r.key, aliasMark)
	return r.at(r.key)
}

func (r *reader) at(key []byte) (first record, err error) {
	if !r.SeekPrefixGE(key) || !bytes.Equal(r.Key(), key) {
		return first, r.Error()
	}
	value, err := r.ValueAndErr()
	if err != nil {
		return first, err
	}
	if len(value) != recordSize {
		return first, fmt.Errorf("%w: identity %x has a value of %d bytes", ErrDamaged, key, len(value))
	}
	first = record{binary.LittleEndian.Uint64(value), checkpoint.Fingerprint(binary.LittleEndian.Uint64(value[8:]))}
	if first.seq == 0 {
		return first, fmt.Errorf("%w: identity %x was first seen at sequence 0", ErrDamaged, key)
	}
	return first, nil
}

// appendKey appends the identity, and the mark of an alias.
func (s *Sighting) appendKey(key []byte) []byte {
	key = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(key, s.hi), s.lo)
	if s.alias {
		key = append(key, aliasMark)
	}
	return key
}

func put(batch *pebble.Batch, now *Sighting) error {
	size := 16
	if now.alias {
		size++
	}
	op := batch.SetDeferred(size, recordSize)
	now.appendKey(op.Key[:0])
	binary.LittleEndian.PutUint64(op.Value, now.seq)
	binary.LittleEndian.PutUint64(op.Value[8:], uint64(now.fingerprint))
	return op.Finish()
}

func (s *Store) commit(batch *pebble.Batch, next ledger) error {
	if err := batch.Set(ledgerKey, next.encode(), nil); err != nil {
		return fmt.Errorf("write key store: %w", err)
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("write key store: %w", err)
	}
	s.ledger = next
	return nil
}
