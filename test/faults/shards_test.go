package main

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// TestShardsNoticed: a loss, a double, a row that is missing or wrong, and a
// piece that two have are found.
func TestShardsNoticed(t *testing.T) {
	n := newShardNotes(nil)
	f := file{name: "a", shards: []int{0, 1}}
	n.begun(f)
	n.registered(f)
	lost, twice := piece{"a", 0, shardStages[0]}, piece{"a", 0, shardStages[1]}
	n.ended(end{piece: lost, move: "done"})
	n.ended(end{lost, "again", "w"})
	n.ended(end{lost, "fail", "w"})
	r := &workRecord{
		items: map[string]map[int][4]string{"a": {0: {"done", "new", "done", "new"}}, "b": {}},
		done:  map[piece]int{twice: 2}, said: map[end]int{}, now: map[piece]string{twice: "done"},
	}
	v := &workVerdict{}
	v.compareFiles(n.files, r)
	if len(v.mismatches) != 3 || v.items != 2 {
		t.Errorf("a shard too few, one that is not done, and a file that nobody registered: %q", v.mismatches)
	}
	v = &workVerdict{}
	v.compareEnds(n.workNotes, r)
	if v.lost != 1 || v.doubled != 1 || v.acked != 1 || v.recorded != 1 || len(v.mismatches) != 4 {
		t.Errorf("%v: %q", v, v.mismatches)
	}
	n.took(twice, "v", time.Now(), time.Now().Add(time.Hour))
	n.took(twice, "w", time.Now(), time.Now().Add(time.Hour))
	if len(n.failures) != 1 {
		t.Errorf("two have it: %q", n.failures)
	}
	for _, bad := range [][3]string{
		{"", "done", "done"},
		{"done", "start", "started"},
		{"new", "release", "new"},
		{"done", "retry", "new"},
		{"done", "done", "done"},
	} {
		if allowed(bad[0], bad[1], bad[2]) {
			t.Errorf("%v is allowed", bad)
		}
	}
}

// TestHandlersNoticed: a handler and a poller that have one piece at a time are
// found, whoever comes first, while both are sure to; and one that is called
// more often than it had the piece.
func TestHandlersNoticed(t *testing.T) {
	now := time.Now()
	before, later := now.Add(-time.Hour), now.Add(time.Hour)
	p := piece{"a", 0, shardStages[0]}
	for name, tc := range map[string]struct {
		act  func(n *shardNotes)
		want int
	}{
		"a poller takes what a handler works": {func(n *shardNotes) {
			n.began(p, "h", now, later)
			n.took(p, "w", now,
				later)
		}, 1},
		"a handler works what a poller has": {func(n *shardNotes) {
			n.took(p, "w", now, later)
			n.began(p, "h", now,
				later)
		}, 1},
		"two handlers work it": {func(n *shardNotes) {
			n.began(p, "g", now, later)
			n.began(p, "h", now,
				later)
		}, 1},
		"one after the other": {func(n *shardNotes) {
			n.began(p, "h", now, later)
			n.leaves(p,
				"h")
			n.took(p, "w", now, later)
		}, 0},
		"a handler whose lease may be over": {func(n *shardNotes) {
			n.took(p, "w", now, later)
			n.began(p, "h",
				before, now)
		}, 0},
		"a poller whose lease may be over": {func(n *shardNotes) {
			n.began(p, "h", now, later)
			n.took(p, "w",
				before, now)
		}, 0},
	} {
		n := newShardNotes(nil)
		if tc.act(n); len(n.failures) != tc.want {
			t.Errorf("%s: %q", name, n.failures)
		}
	}
	for _, tc := range []struct{ calls, open, starts, want int }{
		{2, 0, 0, 1},
		{2, 0, 1, 1},
		{2, 0, 2, 0},
		{2, 1, 1, 0},
	} {
		n, v := newShardNotes(nil), &workVerdict{}
		for range tc.calls {
			n.began(p, "h", before, now)
		}
		for range tc.open {
			n.open(p, "h")
		}
		v.compareEnds(n.workNotes, &workRecord{said: map[end]int{{p, "start", "h"}: tc.starts}})
		if len(v.mismatches) != tc.want {
			t.Errorf("%+v: %q", tc, v.mismatches)
		}
	}
}

// TestFilesRepeatable: what is registered is a function of the seed.
func TestFilesRepeatable(t *testing.T) {
	a, b := rand.New(rand.NewPCG(5, 5)), rand.New(rand.NewPCG(5, 5))
	kinds := map[bool]int{}
	for i := range 100 {
		f := nextFile(a, i)
		if !reflect.DeepEqual(f, nextFile(b, i)) {
			t.Fatal("one seed, two files")
		}
		kinds[f.overJS]++
	}
	if kinds[true] < 10 || kinds[false] < 10 {
		t.Errorf("reported over NATS: %v", kinds)
	}
}
