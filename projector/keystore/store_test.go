package keystore

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/schemas/checkpoint"
)

func idOf(n uint64) checkpoint.Identity {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, n))
	return checkpoint.Identity(sum[:16])
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

	var history []uint64                // identity of each sequence, from 1
	var sender []checkpoint.Fingerprint // that goes with it
	for range 6000 {
		history = append(history, rng.Uint64N(2500))
		sender = append(sender, checkpoint.Fingerprint(1+rng.IntN(2)))
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
			batch = append(batch, See(idOf(history[seq-1]), sender[seq-1], uint64(seq)))
		}
		repeats, err := s.Fold(batch, uint64(at), uint64(end))
		if err != nil {
			t.Fatal(err)
		}
		for seq := at + 1; seq <= end; seq++ {
			id := history[seq-1]
			i := slices.IndexFunc(repeats, func(r Repeat) bool { return r.Row == int32(seq-at-1) })
			if first := i < 0; first != (want[id] == seq) {
				t.Fatalf("seed %d: sequence %d of identity %d first seen at %d: first is %v", seed, seq, id, want[id],
					first)
			}
			if i < 0 {
				continue
			}
			conflict := sender[seq-1] != sender[want[id]-1]
			if r := repeats[i]; r.First != uint64(want[id]) || r.Conflict != conflict {
				t.Fatalf("seed %d: sequence %d of identity %d first seen at %d, conflict %v: got %+v", seed, seq, id,
					want[id], conflict, r)
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
		batch = append(batch, See(idOf(n), 1, n))
		if n%40_000 == 0 {
			if _, err := s.Fold(batch, n-40_000, n); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}

// TestUnknownFingerprint: what is known without a fingerprint is repeated by
// anything.
func TestUnknownFingerprint(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	if err := s.Fill([]Sighting{See(idOf(1), 0, 5), See(idOf(2), 3, 6)}, 6); err != nil {
		t.Fatal(err)
	}
	repeats, err := s.Fold([]Sighting{See(idOf(1), 2, 7), See(idOf(2), 2, 8), See(idOf(2), 3, 9)}, 6, 9)
	slices.SortFunc(repeats, func(a, b Repeat) int { return int(a.Row - b.Row) })
	want := []Repeat{{Row: 0, First: 5}, {Row: 1, First: 6, Conflict: true}, {Row: 2, First: 6}}
	if err != nil || !slices.Equal(repeats, want) {
		t.Errorf("got %+v, %v; want %+v", repeats, err, want)
	}
}

// TestAliases: an alias is known, and counts in no sum, also where the event whose
// identity it is comes later.
func TestAliases(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill := func(upTo uint64, all ...Sighting) {
		t.Helper()
		if err := errors.Join(s.Fill(all, upTo), s.db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	fill(5, See(idOf(1), 1, 5), See(idOf(2), 1, 5).AsAlias(), See(idOf(3), 1, 5).AsAlias())
	fill(6, See(idOf(3), 1, 6), See(idOf(1), 1, 6).AsAlias())
	var want checkpoint.Sum
	want.AddID(idOf(1))
	want.AddID(idOf(3))
	for range 2 {
		if known, err := s.Known(6); err != nil || known != want {
			t.Errorf("it knows %s, %v; want %s", known, err, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir) // which proves the sum
		if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { s.Close() }()
	repeats, err := s.Fold([]Sighting{See(idOf(1), 1, 7), See(idOf(2), 1, 8), See(idOf(3), 1, 9)}, 6, 9)
	slices.SortFunc(repeats, func(a, b Repeat) int { return int(a.Row - b.Row) })
	if first := []Repeat{{Row: 0, First: 5}, {Row: 1, First: 5}, {Row: 2, First: 6}}; err != nil ||
		!slices.Equal(repeats, first) {
		t.Errorf("got %+v, %v; want %+v", repeats, err, first)
	}
}

// TestLookup finds what has been folded, beside the fold.
func TestLookup(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	foldAll(t, s, 1, 500, 1)
	done := make(chan error, 1)
	go func() {
		for at := uint64(501); at < 20_000; at += 500 {
			if _, err := s.Fold(sightings(at, at+499, at), at-1, at+499); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range 50 {
		asked := append(sightings(401, 500, 0), See(idOf(7), 2, 0), See(idOf(30_000), 1, 0))
		known, err := s.Lookup(asked)
		if err != nil || len(known) != 101 {
			t.Fatalf("%d known: %v", len(known), err)
		}
		for _, r := range known {
			if want := (Repeat{Row: r.Row, First: uint64(401 + r.Row)}); r.Row < 100 && r != want {
				t.Fatalf("got %+v, want %+v", r, want)
			} else if r.Row == 100 && r != (Repeat{Row: 100, First: 7, Conflict: true}) {
				t.Fatalf("a conflict is %+v", r)
			}
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
