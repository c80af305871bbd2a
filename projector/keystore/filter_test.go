package keystore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestFilter holds invariant 2 where most answers come from memory: over random
// histories with repeats and aliases, in stores that are opened again while their
// filter has read a part of them, an identity that the store holds is never told
// to be unknown, however little memory there is, and all of it is given back.
func TestFilter(t *testing.T) {
	defer func(part uint64, step int) { filterPart, readStep = part, step }(filterPart, readStep)
	filterPart, readStep = 64, 7
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, bytes := range map[string]int64{"none": 0, "little": 400, "plenty": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			l := &filteredLife{
				T: t, rng: rng, files: vfs.NewMem(), memory: NewFilterMemory(bytes), first: map[uint64]uint64{},
			}
			for range 8 {
				l.live()
				if left := l.memory.left.Load(); left != bytes {
					t.Fatalf("of %d bytes for filters %d are left", bytes, left)
				}
			}
			t.Logf("%d identities in %d events, %d answers from memory, %d parts",
				len(l.first), l.at, l.lacked, l.parts)
			if bytes > 1<<16 && l.parts < 2 {
				t.Errorf("with %d bytes the filter has %d parts", bytes, l.parts)
			}
			if sure := l.lacked > 0; sure != (bytes > 0) {
				t.Errorf("with %d bytes %d answers came from memory", bytes, l.lacked)
			}
		})
	}
}

// filteredLife is a store and what it has to know.
type filteredLife struct {
	*testing.T
	rng    *rand.Rand
	files  *vfs.MemFS
	memory *FilterMemory
	first  map[uint64]uint64 // sequence at which an identity was first seen
	at     uint64
	lacked int // answers from memory
	parts  int // most that the filter had
}

// live opens the store, has it take some batches, and closes it.
func (l *filteredLife) live() {
	o := little
	o.Filters = l.memory
	s, err := openIn(l.Context(), l.files, keysDir, o)
	must(l.T, err)
	defer func() { must(l.T, s.Close()) }()
	for range 20 {
		if l.rng.IntN(5) == 0 {
			l.alias(s)
		}
		from := l.at
		var batch []Sighting
		var ids []uint64
		for range l.rng.IntN(60) {
			l.at++
			ids = append(ids, l.rng.Uint64N(4000))
			batch = append(batch, See(idOf(ids[len(ids)-1]), 1, l.at))
		}
		key := idOf(4000 + l.at)
		if s.filter.lacks(key[:]) {
			l.lacked++
		}
		repeats, err := s.Fold(batch, from, l.at)
		must(l.T, err)
		l.parts = max(l.parts, len(s.filter.parts))
		found := map[int32]uint64{}
		for _, r := range repeats {
			found[r.Row] = r.First
		}
		for i, id := range ids {
			seq := from + uint64(i) + 1
			if l.first[id] == 0 {
				l.first[id] = seq
			}
			if want := l.first[id]; want != seq && found[int32(i)] != want || want == seq && found[int32(i)] != 0 {
				l.Fatalf("identity %d at sequence %d was first seen at %d, and is told to be at %d",
					id, seq, want, found[int32(i)])
			}
		}
	}
}

// alias fills in an event whose other identity may be any.
func (l *filteredLife) alias(s *Store) {
	l.at++
	id := l.rng.Uint64N(4000)
	must(l.T, s.Fill([]Sighting{See(idOf(id), 1, l.at).AsAlias()}, l.at))
	if l.first[id] == 0 {
		l.first[id] = l.at
	}
}
