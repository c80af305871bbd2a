package keystore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// past is a random history, and what has to be known of it.
type past struct {
	ids   []uint64 // of each sequence, from 1
	first []checkpoint.Sum
}

func newPast(rng *rand.Rand, n, different int) past {
	p := past{first: make([]checkpoint.Sum, 1, n+1)}
	seen := map[uint64]bool{}
	for range n {
		id := rng.Uint64N(uint64(different))
		known := p.first[len(p.first)-1]
		if !seen[id] {
			s := See(idOf(id), 0, 0)
			known.Add(s.hi, s.lo)
		}
		seen[id] = true
		p.ids, p.first = append(p.ids, id), append(p.first, known)
	}
	return p
}

// sightings are those of the sequences (from, to].
func (p past) sightings(from, to uint64) (all []Sighting) {
	for seq := from + 1; seq <= to; seq++ {
		all = append(all, See(idOf(p.ids[seq-1]), 1, seq))
	}
	return all
}

// rows are the first sightings among those, as ClickHouse has them: in no order,
// and some of them twice.
func (p past) rows(rng *rand.Rand, from, to uint64) (all []Sighting) {
	for _, s := range p.sightings(from, to) {
		if p.first[s.seq].Count > p.first[s.seq-1].Count {
			all = append(all, s)
			if rng.IntN(4) == 0 {
				all = append(all, s)
			}
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// TestKilled holds that a store which is killed, or loses its power with what it
// has not synced, is never taken for damaged, and that the sums are
// right over random histories: with repeats, batches folded again in other
// bounds, parts filled in and killed meanwhile, and a checkpoint that lags.
func TestKilled(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 6 {
		killed(t, rng, newPast(rng, 6000, 1+rng.IntN(6000)))
	}
}

func killed(t *testing.T, rng *rand.Rand, p past) {
	files := vfs.NewCrashableMem()
	lives, checkpoint, end := 0, uint64(0), uint64(len(p.ids))
	for ; checkpoint < end; lives++ {
		s, err := openIn(t.Context(), files, keysDir, little)
		must(t, err)
		if rng.IntN(3) == 0 { // others go on meanwhile
			checkpoint = min(end, checkpoint+rng.Uint64N(600))
		}
		if before := s.Before(checkpoint); s.Applied() > checkpoint && before < checkpoint {
			_, err := s.Fold(p.rows(rng, before, checkpoint), before, checkpoint)
			must(t, err)
			hold(t, p, s, checkpoint)
		}
		if s.Applied() < checkpoint && !refill(t, rng, p, s, checkpoint) {
			files = crash(t, rng, files, s)
			continue
		}
		for at := checkpoint; at < end && rng.IntN(12) > 0; {
			to := min(end, at+1+rng.Uint64N(200))
			_, err := s.Fold(p.sightings(at, to), at, to)
			must(t, err)
			hold(t, p, s, at)
			hold(t, p, s, to)
			if checkpoint = at; rng.IntN(4) > 0 {
				must(t, s.Sync())
				checkpoint = to
			}
			if at = to; checkpoint < at { // the flusher is one batch behind
				must(t, s.Sync())
			}
		}
		files = crash(t, rng, files, s)
	}
	t.Logf("%d events of %d identities in %d lives", end, p.first[end].Count, lives)
}

// refill brings a store to a sequence; it returns false when it is killed before.
func refill(t *testing.T, rng *rand.Rand, p past, s *Store, to uint64) bool {
	t.Helper()
	applied := s.Applied()
	rows := p.rows(rng, applied, to)
	for len(rows) > 0 {
		n := min(len(rows), 1+rng.IntN(100))
		must(t, s.Fill(rows[:n], applied))
		if rows = rows[n:]; rng.IntN(30) == 0 {
			return false
		}
	}
	must(t, s.Fill(nil, to))
	hold(t, p, s, to)
	return true
}

func hold(t *testing.T, p past, s *Store, at uint64) {
	t.Helper()
	if known, err := s.Known(at); err != nil || known != p.first[at] {
		t.Fatalf("at sequence %d it knows %v, %v, want %v", at, known, err, p.first[at])
	}
}

// crash returns what is left when the store ends in its middle.
func crash(t *testing.T, rng *rand.Rand, files *vfs.MemFS, s *Store) *vfs.MemFS {
	t.Helper()
	left := files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[rng.IntN(3)], RNG: rng})
	must(t, s.Close())
	return left
}

// TestOtherLife holds that a store is told from one whose files agree with each
// other, but which is not that of the group: what it knows at the checkpoint's
// position is not what was counted, or it does not know what it knew there.
func TestOtherLife(t *testing.T) {
	files := vfs.NewMem()
	s, err := openIn(t.Context(), files, keysDir, little)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	foldAll(t, s, 1, 100, 1)
	foldAll(t, s, 201, 300, 101)
	if known, err := s.Known(200); err != nil || known == sumOf(1, 200) {
		t.Errorf("it knows %v at 200, %v", known, err)
	}
	if _, err := s.Known(150); !IsDamaged(err) {
		t.Errorf("it knows what it knew in the middle of a batch: %v", err)
	}
	if _, err := s.Fold(nil, 150, 250); !IsDamaged(err) {
		t.Errorf("it folds from where it does not know what it knew: %v", err)
	}
	// The stream has other messages now than those that were folded.
	if _, err := s.Fold(sightings(301, 302, 101), 100, 200); !IsDamaged(err) {
		t.Errorf("it holds more than was counted, and goes on: %v", err)
	}
}

// TestUnproven: a store that an older millrace has written is not believed.
func TestUnproven(t *testing.T) {
	files := vfs.NewMem()
	s, err := openIn(t.Context(), files, keysDir, little)
	must(t, err)
	foldAll(t, s, 1, 100, 1)
	must(t, s.db.Set(ledgerKey, []byte{100, 0, 0, 0, 0, 0, 0, 0}, nil))
	must(t, s.Close())
	if _, err = openIn(t.Context(), files, keysDir, little); !IsDamaged(err) {
		t.Errorf("opened, with %v", err)
	}
}
