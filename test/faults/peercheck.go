package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// peerVerdict is what is found of a peer beside what is found of all: these
// are figures of the table as it is, where the others are of what a reader of
// it sees.
type peerVerdict struct {
	name        peer
	rows        int // of the table
	redelivered int // rows beyond one for each message that was delivered
	resent      int // rows beyond one an identity, for messages that were sent more than once
	off         int // how far the rollup's counts are from the right ones, all together
}

// doubled are the rows beyond one an identity.
func (p *peerVerdict) doubled() int { return p.redelivered + p.resent }

// concludePeer compares the peer's table with what was acknowledged.
func (t *trial) concludePeer(ctx context.Context) (*verdict, error) {
	j, err := t.ledger.read(ctx, t.js, t.tape)
	if err != nil {
		return nil, err
	}
	v := &verdict{peer: &peerVerdict{name: t.cfg.peer}}
	facts, acked := v.compareStream(t.ledger, j)
	db := database{t.cluster.chHTTP}
	rows, err := peerRows(ctx, db, "")
	if err != nil {
		return v, err
	}
	rollup, err := peerRollup(ctx, db)
	if err != nil {
		return v, err
	}
	v.comparePeer(rows, rollup, facts, j.facts)
	seen := rows
	if t.cfg.peer == replacingPeer {
		if seen, err = peerRows(ctx, db, "FINAL"); err != nil {
			return v, err
		}
	}
	v.countPeer(seen, facts, acked, j.facts)
	return v, nil
}

// group is what a rollup counts by.
type group struct{ stage, source string }

// peerRow is a message in a peer's table.
type peerRow struct {
	group
	times int // that it is there
}

// peerRows are the rows by their place in the stream.
func peerRows(ctx context.Context, db database, final string) (map[uint64]peerRow, error) {
	rows, err := db.query(ctx,
		"SELECT seq, any(stage), any(source_name), count() FROM peer_events "+final+" GROUP BY seq")
	if err != nil {
		return nil, err
	}
	found := map[uint64]peerRow{}
	for _, r := range rows {
		seq, err1 := strconv.ParseUint(r[0], 10, 64)
		times, err2 := strconv.Atoi(r[3])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("read the peer's rows: %v: %w", r, err)
		}
		found[seq] = peerRow{group{r[1], r[2]}, times}
	}
	return found, nil
}

func peerRollup(ctx context.Context, db database) (map[group]int, error) {
	rows, err := db.query(ctx, "SELECT stage, source_name, sum(events) FROM peer_stages GROUP BY stage, source_name")
	if err != nil {
		return nil, err
	}
	found := map[group]int{}
	for _, r := range rows {
		n, err := strconv.Atoi(r[2])
		if err != nil {
			return nil, fmt.Errorf("read the peer's rollup: %v: %w", r, err)
		}
		found[group{r[0], r[1]}] = n
	}
	return found, nil
}

// comparePeer holds the rows, and the rollup of them, to one an identity. What
// breaks a rule and is there all the same, once, is not held against the peer.
func (v *verdict) comparePeer(
	rows map[uint64]peerRow, rollup map[group]int, facts map[string]*fact, bySeq map[uint64]*fact,
) {
	p, there, right := v.peer, map[string]int{}, map[group]int{}
	for seq, r := range rows {
		p.rows += r.times
		p.redelivered += r.times - 1
		if f := bySeq[seq]; f == nil {
			right[r.group]++
		} else if there[f.id]++; there[f.id] > 1 {
			p.resent++
		}
	}
	for _, f := range facts {
		right[group{f.stage, f.source}]++
	}
	for g, n := range right {
		p.off += max(n-rollup[g], rollup[g]-n)
	}
	for g, n := range rollup {
		if right[g] == 0 {
			p.off += n
		}
	}
}

// countPeer counts what a reader sees of each event.
func (v *verdict) countPeer(
	rows map[uint64]peerRow, facts map[string]*fact, acked map[string]time.Time, bySeq map[uint64]*fact,
) {
	seen := map[string]int{}
	for seq, r := range rows {
		v.counted += r.times
		if f := bySeq[seq]; f != nil {
			seen[f.id] += r.times
		}
	}
	for id := range facts {
		f := fate{counted: seen[id], lost: max(0, 1-seen[id]), doubled: max(0, seen[id]-1)}
		v.lost, v.doubled = v.lost+f.lost, v.doubled+f.doubled
		if at, ok := acked[id]; ok {
			f.at = at
			v.fates = append(v.fates, f)
		}
	}
}

// printPeer says what became of the events in the peer's hands.
func (v *verdict) printPeer(out io.Writer) {
	p := v.peer
	fmt.Fprintf(out, "peer %s: events acknowledged %d, rows %d, lost %d, doubled %d; of the rows in the table %d "+
		"more than one a message, %d more of messages sent again; rollup off by %d\n",
		p.name, v.acked, v.counted, v.lost, v.doubled, p.redelivered, p.resent, p.off)
	if p.name == replacingPeer {
		fmt.Fprintf(out, "without FINAL, as merges have left it: rows %d, doubled %d\n", p.rows, p.doubled())
	}
}
