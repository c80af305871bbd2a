package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// verdict is what the comparison found.
type verdict struct {
	sent, acked  int // distinct identities
	counted      int // rows of the events table
	lost         int // acknowledged, and not in the table
	doubled      int // rows beyond one an identity
	letters      int
	mismatches   []string
	streamLosses int // acknowledged, and not even on the stream
	fates        []fate
	peer         *peerVerdict // nil of the program itself
}

// fate is what became of an event, or of a message that breaks a rule.
type fate struct {
	at                              time.Time // when it was acknowledged
	counted, lost, doubled, letters int
}

// worded bounds the mismatches that are put into words. All are counted.
const worded = 1000

func (v *verdict) wrong(format string, args ...any) {
	text := "and another"
	if len(v.mismatches) < worded {
		text = fmt.Sprintf(format, args...)
	}
	v.mismatches = append(v.mismatches, text)
}

// check compares everything that can be read with a recount of what was
// acknowledged, or is on the stream without an acknowledgement. alone says that
// one slot group has folded all of it.
func check(ctx context.Context, c *cluster, l *ledger, j *journal, lv *live, alone bool) (*verdict, error) {
	v := &verdict{}
	facts, acked := v.compareStream(l, j)
	t, err := recount(facts, j)
	if err != nil {
		return v, err
	}
	db := database{c.chHTTP}
	for _, step := range []func() error{
		func() error { return v.compareEvents(ctx, db, t, acked) },
		func() error { return v.compareFunnel(ctx, db, t) },
		func() error { return v.compareViews(ctx, db, t) },
		func() error { return v.compareHTTP(ctx, c.queryAddr, t) },
	} {
		if err := step(); err != nil {
			return v, err
		}
	}
	v.compareLetters(j)
	v.compareLive(ctx, lv, t, alone)
	return v, nil
}

// checkTotals compares the events table and the funnel, stage by stage, with
// what was acknowledged, when the stream has dropped it, and reports what the
// WebSocket has done wrong.
func checkTotals(ctx context.Context, c *cluster, l *ledger, lv *live) (*verdict, error) {
	v, db := &verdict{}, database{c.chHTTP}
	rows, distinct, err := totals(ctx, db)
	if err != nil {
		return v, err
	}
	for stage, ids := range l.ids {
		v.acked += len(ids)
		v.counted += rows[stage]
		v.lost += max(0, len(ids)-distinct[stage])
		v.doubled += rows[stage] - distinct[stage]
		if distinct[stage] > len(ids) {
			v.wrong("events: %d of stage %s, and only %d acknowledged", distinct[stage], stage, len(ids))
		}
		for _, width := range funnel.Widths {
			sum, err := db.query(ctx,
				fmt.Sprintf("SELECT sum(events) FROM funnel FINAL WHERE width = %d AND source = '%s' AND stage = '%s'",
					width, funnel.AllSources, stage))
			if err != nil {
				return v, err
			}
			if want := strconv.Itoa(len(ids)); sum[0][0] != want {
				v.wrong("funnel: %s events of stage %s in rows of %d s, want %s", sum[0][0], stage, width, want)
			}
		}
	}
	v.sent = v.acked
	v.reportLive(lv)
	return v, nil
}

// totals counts the rows and the identities of each stage, a part of them at
// a time to take little memory.
func totals(ctx context.Context, db database) (rows, distinct map[string]int, err error) {
	const parts = 16
	rows, distinct = map[string]int{}, map[string]int{}
	for part := range parts {
		found, err := db.query(ctx, fmt.Sprintf(
			"SELECT stage, count(), uniqExact(identity) FROM events WHERE cityHash64(identity) %% %d = %d GROUP "+
				"BY stage", parts, part))
		if err != nil {
			return nil, nil, err
		}
		for _, r := range found {
			n, err1 := strconv.Atoi(r[1])
			unique, err2 := strconv.Atoi(r[2])
			if err := errors.Join(err1, err2); err != nil {
				return nil, nil, fmt.Errorf("count events: %v: %w", r, err)
			}
			rows[r[0]] += n
			distinct[r[0]] += unique
		}
	}
	return rows, distinct, nil
}

// compareStream returns the facts that have to be counted, and when each was
// acknowledged.
func (v *verdict) compareStream(l *ledger, j *journal) (facts map[string]*fact, acked map[string]time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	facts, acked = map[string]*fact{}, map[string]time.Time{}
	sent := map[string]bool{}
	for body, n := range l.sent {
		missing := !j.bodies[body] && (n.fact == nil || !j.seen[n.fact.id])
		if n.acked && missing {
			v.streamLosses++
		}
		if n.fact == nil || j.first[n.fact.id] == 0 && !missing { // there, but dead letters all of them
			continue
		}
		sent[n.fact.id] = true
		if before, known := acked[n.fact.id]; n.acked && (!known || n.at.Before(before)) {
			acked[n.fact.id] = n.at
		}
		if n.acked || j.first[n.fact.id] > 0 {
			facts[n.fact.id] = cmp.Or(j.holder[n.fact.id], facts[n.fact.id], n.fact)
		}
	}
	v.sent, v.acked = len(sent), len(acked)
	if v.streamLosses > 0 {
		v.wrong("%d acknowledged messages are not on the stream", v.streamLosses)
	}
	if j.strange > 0 {
		v.wrong("%d messages on the stream that nobody sent, or that were refused", j.strange)
	}
	return facts, acked
}

// dayAgo is where a window of 24 hours begins, in Unix nanoseconds: in the gap
// between what happened within 20 hours and what is backfilled from beyond 40.
func dayAgo() int64 { return time.Now().Add(-24 * time.Hour).UnixNano() }

// compareLetters holds the dead letters to the messages on the stream that
// break a rule: each once.
func (v *verdict) compareLetters(j *journal) {
	for seq, n := range j.letters {
		v.letters += n
		if n > 1 || j.invalid[seq] == "" {
			v.wrong("DLQ: %d letters of sequence %d, %q", n, seq, j.invalid[seq])
		}
	}
	for seq, body := range j.invalid {
		v.fates = append(v.fates, fate{at: j.at[seq], letters: j.letters[seq]})
		if j.letters[seq] == 0 {
			v.wrong("DLQ: no letter of sequence %d: %s", seq, body)
		}
	}
}
