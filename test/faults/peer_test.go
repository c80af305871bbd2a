package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// TestPeers: what a peer doubles is found, from the death of a real consumer
// between an insert and its acknowledgement to the verdict; so that no doubles
// of the program itself are none, and not a check that sees nothing.
func TestPeers(t *testing.T) {
	slowtest.Mark(t)
	v := killPeer(t, plainPeer)
	if p := v.peer; v.doubled == 0 || v.doubled != p.doubled() || p.rows != v.acked+p.doubled() ||
		p.off != p.doubled() {
		t.Errorf("%d acknowledged, doubled %d: %+v", v.acked, v.doubled, *p)
	}
	// What replaces rows is right where it is read with FINAL, and a rollup of
	// what is inserted is not.
	v = killPeer(t, replacingPeer)
	if p := v.peer; v.doubled != 0 || v.counted != v.acked || p.off == 0 {
		t.Errorf("%d acknowledged, %d with FINAL, doubled %d: %+v", v.acked, v.counted, v.doubled, *p)
	}
}

// killPeer lets one of a peer's consumers die between an insert and its
// acknowledgement.
func killPeer(t *testing.T, p peer) *verdict {
	t.Helper()
	cfg, err := parse(strings.Fields(p.flag()+" -faults kill-unacked -seed 225 -for 2s -rate 200 -ack-wait 1s"),
		t.Output())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	r, err := run(ctx, cfg, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	r.print(t.Output())
	if len(r.injected[killUnacked]) == 0 || r.failed() || r.verdict.lost > 0 {
		t.Fatalf("seed %d: no fault, or more than it: see above", cfg.seed)
	}
	return r.verdict
}

// TestPeerNotices: each way to be wrong is told from the others.
func TestPeerNotices(t *testing.T) {
	a, b, c := &fact{id: "a", stage: "crawled", source: "x"}, &fact{id: "b", stage: "crawled", source: "x"},
		&fact{id: "c", stage: "routed", source: "y"}
	facts := map[string]*fact{"a": a, "b": b, "c": c}
	bySeq := map[uint64]*fact{1: a, 2: b, 3: a, 4: c}
	x, y := group{"crawled", "x"}, group{"routed", "y"}
	acked := map[string]time.Time{"a": time.Now(), "b": time.Now()}
	for name, test := range map[string]struct {
		rows                                    map[uint64]peerRow
		rollup                                  map[group]int
		lost, doubled, redelivered, resent, off int
	}{
		"right": {
			map[uint64]peerRow{1: {x, 1}, 2: {x, 1}, 4: {y, 1}},
			map[group]int{x: 2, y: 1},
			0, 0, 0,
			0, 0,
		},
		"lost": {map[uint64]peerRow{1: {x, 1}, 4: {y, 1}}, map[group]int{x: 1, y: 1}, 1, 0, 0, 0, 1},
		"delivered again": {
			map[uint64]peerRow{1: {x, 1}, 2: {x, 3}, 4: {y, 1}},
			map[group]int{x: 4, y: 1},
			0, 2, 2,
			0, 2,
		},
		"sent again": {
			map[uint64]peerRow{1: {x, 1}, 2: {x, 1}, 3: {x, 1}, 4: {y, 1}},
			map[group]int{x: 3, y: 1},
			0, 1, 0, 1, 1,
		},
		"breaks a rule": {
			map[uint64]peerRow{1: {x, 1}, 2: {x, 1}, 4: {y, 1}, 5: {y, 1}},
			map[group]int{x: 2, y: 2},
			0, 0, 0, 0, 0,
		},
		"rollup of nothing": {
			map[uint64]peerRow{1: {x, 1}, 2: {x, 1}, 4: {y, 1}},
			map[group]int{x: 2, y: 1, {"", ""}: 3},
			0, 0, 0, 0, 3,
		},
		"rollup fell behind": {map[uint64]peerRow{1: {x, 1}, 2: {x, 1}, 4: {y, 1}}, map[group]int{x: 1}, 0, 0, 0, 0, 2},
	} {
		v := &verdict{peer: &peerVerdict{}}
		v.comparePeer(test.rows, test.rollup, facts, bySeq)
		v.countPeer(test.rows, facts, acked, bySeq)
		p := v.peer
		if v.lost != test.lost || v.doubled != test.doubled || p.redelivered != test.redelivered ||
			p.resent != test.resent || p.off != test.off || len(v.fates) != 2 {
			t.Errorf("%s: lost %d, doubled %d, %+v", name, v.lost, v.doubled, *p)
		}
	}
}

func TestPeerFlags(t *testing.T) {
	for _, bad := range []string{"-peer=such", "-peer=plain -soak"} {
		if _, err := parse(strings.Fields(bad), t.Output()); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if noPeer.suits(killUnacked) || !plainPeer.suits(killUnacked) || plainPeer.suits(rotKeys) ||
		!noPeer.suits(rotKeys) {
		t.Error("kinds go to the wrong trials")
	}
}
