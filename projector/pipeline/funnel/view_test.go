package funnel

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// table is the database: the newest state of each row, encoded.
type table map[contract.Key]state

type state struct {
	events uint64
	set    []byte
	seq    uint64
}

func (t table) Buckets(_ context.Context, add func(contract.Width, uint32)) error {
	for k := range t {
		add(k.Width, k.Bucket)
	}
	return nil
}

func (t table) Rows(_ context.Context, width contract.Width, buckets []uint32, add func(contract.Key, Row)) error {
	wanted := map[uint32]bool{}
	for _, b := range buckets {
		wanted[b] = true
	}
	for k, s := range t {
		if k.Width != width || !wanted[k.Bucket] {
			continue
		}
		row := Row{Events: s.events, Seq: s.seq}
		if err := row.Articles.UnmarshalBinary(s.set); err != nil {
			return err
		}
		add(k, row)
	}
	return nil
}

// write is the sink, and replaces as the table's engine does. It may lose rows
// of the batch, as a crash does, but both or neither of a key.
func (t table) write(lose func() bool) Sink {
	lost := map[contract.Key]bool{}
	return func(key contract.Key, events uint64, articles *contract.Set, seq uint64) error {
		set, err := articles.AppendBinary(nil)
		both := key
		both.Recent = false
		if _, decided := lost[both]; !decided {
			lost[both] = lose()
		}
		if err == nil && !lost[both] && t[key].seq <= seq {
			t[key] = state{events, set, seq}
		}
		return err
	}
}

// sum adds up the rows of a key.
func (t table) sum(tt *testing.T, key contract.Key) (events uint64, all contract.Set) {
	tt.Helper()
	for _, key.Recent = range []bool{false, true} {
		var set contract.Set
		if err := set.UnmarshalBinary(t[key].set); err != nil {
			tt.Fatal(err)
		}
		if err := all.Merge(&set); err != nil {
			tt.Fatal(err)
		}
		events += t[key].events
	}
	return events, all
}

// TestHistories holds invariants 6 and 9 over random batches, with a cache that
// holds next to nothing or puts out what has been idle, and crashes that lose
// some rows of a batch, after which it is folded again.
func TestHistories(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		db := table{}
		want := map[contract.Key]map[uint64]bool{}
		counts := map[contract.Key]uint64{}
		now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		limit := []int{4000, 1 << 20}[seed%2]
		open := func() *View {
			v, err := Open(t.Context(), Config{
				CacheBytes: limit, IdleAfter: 2 * time.Minute,
				Now: func() time.Time { return now },
			}, db)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		v := open()
		for seq := uint64(1); seq <= 60; seq++ {
			groups := randomGroups(rng)
			now = now.Add(time.Duration(rng.IntN(60)) * time.Second)
			for rng.IntN(5) == 0 { // killed while writing
				if err := v.Fold(t.Context(), groups, seq, seq-1,
					db.write(func() bool { return rng.IntN(2) == 0 })); err != nil {
					t.Fatal(err)
				}
				v = open()
			}
			if err := v.Fold(t.Context(), groups, seq, seq-1, db.write(func() bool { return false })); err != nil {
				t.Fatal(err)
			}
			recount(groups, want, counts)
		}
		for key, n := range counts {
			got, set := db.sum(t, key)
			if got != n || set.Estimate() != uint64(len(want[key])) {
				t.Fatalf("seed %d: row %+v has %d events of %d articles, want %d of %d", seed, key, got, set.Estimate(),
					n, len(want[key]))
			}
		}
		for key := range db {
			if key.Recent = false; counts[key] == 0 {
				t.Fatalf("seed %d: a row too many: %+v", seed, key)
			}
		}
		// With all of it durable, and none needed by a batch, the limit holds.
		now = now.Add(time.Second)
		if err := v.Fold(t.Context(), nil, 61, 60, db.write(func() bool { return false })); err != nil {
			t.Fatal(err)
		}
		if v.Bytes() > limit {
			t.Errorf("seed %d: %d bytes are held", seed, v.Bytes())
		}
		now = now.Add(2 * time.Minute)
		if err := v.Fold(t.Context(), nil, 62, 61, db.write(func() bool { return false })); err != nil {
			t.Fatal(err)
		}
		if v.Bytes() != 0 {
			t.Errorf("seed %d: %d bytes are held that have been idle", seed, v.Bytes())
		}
	}
}

// TestWrittenAgain: who has read the rows anew for each batch writes what one does
// that has had them in memory all the time, whatever the order of a batch's articles.
// Most of what is written are recent counts.
func TestWrittenAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	open := func(db table) *View {
		v, err := Open(t.Context(), Config{}, db)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	kept, anew := table{}, table{}
	v, written, recent := open(kept), 0, 0
	for seq := uint64(1); seq <= 400; seq++ {
		groups := randomGroups(rng)[:1]
		groups[0].Quarter %= 4 * 900 // so that the rows grow
		none := func() bool { return false }
		write := kept.write(none)
		err := v.Fold(t.Context(), groups, seq, 0, func(k contract.Key, n uint64, s *contract.Set, seq uint64) error {
			if written++; k.Recent {
				recent++
			}
			return write(k, n, s, seq)
		})
		if err != nil {
			t.Fatal(err)
		}
		articles := groups[0].Articles
		rng.Shuffle(len(articles), func(a, b int) { articles[a], articles[b] = articles[b], articles[a] })
		if err := open(anew).Fold(t.Context(), groups, seq, 0, anew.write(none)); err != nil {
			t.Fatal(err)
		}
		if len(kept) != len(anew) {
			t.Fatalf("batch %d: %d rows, and %d", seq, len(kept), len(anew))
		}
		for key, one := range kept {
			other := anew[key]
			var a, b contract.Set
			if a.UnmarshalBinary(one.set) != nil || b.UnmarshalBinary(other.set) != nil {
				t.Fatal("a set is malformed")
			}
			if one.events != other.events || one.seq != other.seq || a.Estimate() != b.Estimate() || a.Exact() != b.Exact() {
				t.Fatalf("batch %d: %+v has %d events of %d articles up to %d, and %d of %d up to %d", seq, key,
					one.events, a.Estimate(), one.seq, other.events, b.Estimate(), other.seq)
			}
		}
	}
	if recent < written/2 {
		t.Errorf("of %d rows that were written %d are of recent counts", written, recent)
	}
}

// randomGroups has each quarter, source and stage once, as a batch has.
func randomGroups(rng *rand.Rand) (groups []Group) {
	type at struct{ quarter, source, stage int }
	seen := map[at]bool{}
	for range 1 + rng.IntN(8) {
		k := at{rng.IntN(300), rng.IntN(3), rng.IntN(2)}
		if seen[k] {
			continue
		}
		seen[k] = true
		g := Group{
			Quarter: uint32(k.quarter) * 900, Source: string(rune('a' + k.source)),
			Stage: string(rune('x' + k.stage)),
		}
		for range 1 + rng.IntN(20) {
			g.Articles = append(g.Articles, rng.Uint64N(500)*0x9E3779B97F4A7C15)
		}
		groups = append(groups, g)
	}
	return groups
}

func recount(groups []Group, want map[contract.Key]map[uint64]bool, counts map[contract.Key]uint64) {
	for _, g := range groups {
		for _, w := range contract.Widths {
			for _, source := range []string{contract.AllSources, g.Source} {
				key := contract.Key{Width: w, Bucket: uint32(w.Floor(int64(g.Quarter))), Source: source, Stage: g.Stage}
				if want[key] == nil {
					want[key] = map[uint64]bool{}
				}
				for _, id := range g.Articles {
					want[key][id] = true
				}
				counts[key] += uint64(len(g.Articles))
			}
		}
	}
}
