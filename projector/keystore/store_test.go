package keystore

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/schemas/event"
)

func identity(n uint64) event.Identity {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, n))
	return event.Identity(sum[:16])
}

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBytes: the size is that of the files.
func TestBytes(t *testing.T) {
	s := open(t, filled(t))
	defer func() { s.Close() }()
	if size, err := s.Bytes(); err != nil || size < known*24 || size > known*1000 {
		t.Errorf("%d bytes for %d identities: %v", size, known, err)
	}
}

// TestFirstSighting holds invariant 2 over random histories with repeats,
// batches and restarts that lose what was not applied.
func TestFirstSighting(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	s := open(t, dir)
	defer func() { s.Close() }()

	var history []uint64 // identity of each sequence, from 1
	for range 6000 {
		history = append(history, rng.Uint64N(2500))
	}
	want := map[uint64]int{}
	for i, id := range history {
		if _, ok := want[id]; !ok {
			want[id] = i + 1
		}
	}
	for at := 0; at < len(history); {
		end := min(at+1+rng.IntN(300), len(history))
		if rng.IntN(10) == 0 { // killed before the batch: it is folded after a restart
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir)
		}
		var batch []Sighting
		for seq := at + 1; seq <= end; seq++ {
			batch = append(batch, See(identity(history[seq-1]), uint64(seq)))
		}
		repeated, err := s.Fold(batch, uint64(end))
		if err != nil {
			t.Fatal(err)
		}
		for seq := at + 1; seq <= end; seq++ {
			id := history[seq-1]
			if first := !slices.Contains(repeated, int32(seq-at-1)); first != (want[id] == seq) {
				t.Fatalf("seed %d: sequence %d of identity %d first seen at %d: first is %v", seed, seq, id, want[id], first)
			}
		}
		if rng.IntN(10) == 0 { // killed after it: it is folded again, perhaps cut elsewhere
			continue
		}
		at = end
	}
	if s.Applied() != uint64(len(history)) {
		t.Errorf("applied %d of %d", s.Applied(), len(history))
	}
}

// BenchmarkFold is the cost of a new identity in batches of 40,000.
func BenchmarkFold(b *testing.B) {
	s := open(b, b.TempDir())
	defer s.Close()
	n := uint64(0)
	var batch []Sighting
	for b.Loop() {
		n++
		batch = append(batch, See(identity(n), n))
		if n%40_000 == 0 {
			if _, err := s.Fold(batch, n); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}
