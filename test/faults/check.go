package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

func (v *verdict) wrong(format string, args ...any) {
	v.mismatches = append(v.mismatches, fmt.Sprintf(format, args...))
}

// check compares everything that can be read with a recount of what was
// acknowledged, or is on the stream without an acknowledgement.
func check(ctx context.Context, c *cluster, l *ledger, j *journal, lv *live) (*verdict, error) {
	v := &verdict{}
	facts, acked := v.compareStream(l, j)
	t := recount(facts)
	db := database{c.chHTTP}
	for _, step := range []func() error{
		func() error { return v.compareEvents(ctx, db, t, j, acked) },
		func() error { return v.compareFunnel(ctx, db, t) },
		func() error { return v.compareViews(ctx, db, t) },
		func() error { return v.compareHTTP(ctx, c.queryAddr, t) },
	} {
		if err := step(); err != nil {
			return v, err
		}
	}
	v.compareLetters(j)
	v.compareLive(ctx, lv, t)
	return v, nil
}

// checkTotals compares the events table and the funnel, stage by stage, with
// what was acknowledged, when the stream has dropped it.
func checkTotals(ctx context.Context, c *cluster, l *ledger) (*verdict, error) {
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
			sum, err := db.query(ctx, fmt.Sprintf("SELECT sum(events) FROM funnel FINAL WHERE width = %d AND source = '%s' AND stage = '%s'",
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
	return v, nil
}

// totals counts the rows and the identities of each stage, a part of them at
// a time to take little memory.
func totals(ctx context.Context, db database) (rows, distinct map[string]int, err error) {
	const parts = 16
	rows, distinct = map[string]int{}, map[string]int{}
	for part := range parts {
		found, err := db.query(ctx, fmt.Sprintf(
			"SELECT stage, count(), uniqExact(identity) FROM events WHERE cityHash64(identity) %% %d = %d GROUP BY stage", parts, part))
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
			facts[n.fact.id] = n.fact
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

// compareEvents holds the events table to one row an identity: that of its
// first sighting.
func (v *verdict) compareEvents(ctx context.Context, db database, t truth, j *journal, acked map[string]time.Time) error {
	rows, err := db.query(ctx, "SELECT lower(hex(identity)), seq, stage, source_name, toString(toUnixTimestamp(occurred_at)) FROM events")
	if err != nil {
		return err
	}
	v.counted = len(rows)
	seen := map[string]int{}
	for _, r := range rows {
		raw, _ := hex.DecodeString(r[0]) // of bad text nothing is known
		id := string(raw)
		f := t.facts[id]
		switch at, _ := strconv.ParseInt(r[4], 10, 64); {
		case f == nil:
			v.wrong("events: a row that nobody sent: %v", r)
		case seen[id] > 0:
			v.doubled++
		case r[1] != fmt.Sprint(j.first[id]):
			v.wrong("events: %s counts at sequence %s, its first sighting is %d", f.msgID, r[1], j.first[id])
		case r[2] != f.stage || r[3] != f.source || at-at%900 != f.quarter:
			v.wrong("events: %s says %v", f.msgID, r)
		}
		seen[id]++
	}
	for id, f := range t.facts {
		if at, ok := acked[id]; ok {
			v.fates = append(v.fates, fate{at: at, counted: seen[id], lost: max(0, 1-seen[id]), doubled: max(0, seen[id]-1)})
		}
		if seen[id] == 0 {
			if v.lost++; v.lost <= 3 {
				v.wrong("events: %s is lost, sequence %d", f.msgID, j.first[id])
			}
		}
	}
	return nil
}

// compareFunnel holds every row of the funnel table, those of all slot groups
// together, to the recount.
func (v *verdict) compareFunnel(ctx context.Context, db database, t truth) error {
	rows, err := db.query(ctx, "SELECT width, toUnixTimestamp(bucket), source, stage, events, hex(articles) FROM funnel FINAL")
	if err != nil {
		return err
	}
	sums := map[funnel.Key]*sum{}
	for _, r := range rows {
		if err := addRow(sums, r); err != nil {
			v.wrong("funnel: %v: %v", r[:5], err)
		}
	}
	for key, want := range t.bucket {
		got := sums[key]
		if delete(sums, key); got == nil {
			v.wrong("funnel: %+v is missing", key)
		} else if got.events != want.events || got.set.Exact() && int(got.set.Estimate()) != len(want.articles) {
			v.wrong("funnel: %+v has %d events of %d articles, want %d of %d", key, got.events, got.set.Estimate(), want.events, len(want.articles))
		}
	}
	for key := range sums {
		v.wrong("funnel: a row too many: %+v", key)
	}
	return nil
}

// sum is what the rows of a key add up to.
type sum struct {
	events int
	set    funnel.Set
}

func addRow(sums map[funnel.Key]*sum, r []string) error {
	width, err1 := strconv.ParseUint(r[0], 10, 32)
	bucket, err2 := strconv.ParseUint(r[1], 10, 32)
	events, err3 := strconv.Atoi(r[4])
	data, err4 := hex.DecodeString(r[5])
	var set funnel.Set
	if err := errors.Join(err1, err2, err3, err4, set.UnmarshalBinary(data)); err != nil {
		return err
	}
	key := funnel.Key{Width: funnel.Width(width), Bucket: uint32(bucket), Source: r[2], Stage: r[3]}
	if sums[key] == nil {
		sums[key] = new(sum)
	}
	sums[key].events += events
	return sums[key].set.Merge(&set)
}

// compareViews holds the analysts' views to the recount, row by row.
func (v *verdict) compareViews(ctx context.Context, db database, t truth) error {
	for name, view := range map[string]struct {
		sql  string
		want map[string]string
	}{
		"articles": {"SELECT url_hash, concat(url, ' ', domain) FROM articles", t.articles()},
		"journeys": {"SELECT concat(url_hash, ' ', stage), toString(events) FROM journeys", t.journeys()},
		"SQL over events": {
			"SELECT concat(stage, ' ', source_name), concat(toString(count()), ' ', toString(uniqExact(url_hash))) FROM events GROUP BY stage, source_name",
			t.bySource(),
		},
	} {
		rows, err := db.query(ctx, view.sql)
		if err != nil {
			return err
		}
		if len(rows) != len(view.want) {
			v.wrong("%s: %d rows, want %d", name, len(rows), len(view.want))
		}
		for _, r := range rows {
			if want := view.want[r[0]]; r[1] != want {
				v.wrong("%s: %s is %s, want %s", name, r[0], r[1], want)
			}
		}
	}
	return nil
}

// compareHTTP holds the funnel over HTTP to the recount.
func (v *verdict) compareHTTP(ctx context.Context, query string, t truth) error {
	begin := time.Unix(t.oldest, 0).UTC()
	window := "from=" + begin.Format(time.RFC3339) + "&to=" + time.Now().UTC().Add(latest).Format(time.RFC3339)
	sources := t.sources()
	sources[""] = true
	for source := range sources {
		for params, want := range map[string][]count{
			"period=24h":              t.stages(source, dayAgo()),
			window:                    t.stages(source, 0),
			window + "&uniques=exact": t.stages(source, 0),
		} {
			f, err := getFunnel(ctx, query, params, source)
			if err != nil {
				return err
			}
			if err := v.compareStats(ctx, query, params, source, want); err != nil {
				return err
			}
			if same := slices.Equal(f.Stages, want); !same && f.UniqueMethod == "exact" || !sameEvents(f.Stages, want) {
				v.wrong("GET /funnel?%s of source %q: %v, want %v", params, source, f.Stages, want)
			}
		}
	}
	return nil
}

// compareStats holds the statistics of a window to the counts of its stages.
func (v *verdict) compareStats(ctx context.Context, query, params, source string, want []count) error {
	params = strings.TrimSuffix(params, "&uniques=exact")
	s, err := getStats(ctx, query, params, source)
	if err != nil {
		return err
	}
	sources := 0
	for _, n := range s.Crawl.BySource {
		sources += n
	}
	got := [5]int{s.Crawl.Total, sources, s.Classification.Total, s.Publishing.Routed, s.Publishing.Published}
	if got != [5]int{want[0].Events, want[0].Events, want[2].Events, want[3].Events, want[4].Events} {
		v.wrong("GET /stats?%s of source %q: %v, want %v", params, source, got, want)
	}
	return nil
}

// dayAgo is where a window of 24 hours begins: in the gap between what
// happened within 20 hours and what is backfilled from beyond 40.
func dayAgo() int64 { return time.Now().Add(-24 * time.Hour).Unix() }

func sameEvents(a, b []count) bool {
	return slices.EqualFunc(a, b, func(x, y count) bool { return x.Name == y.Name && x.Events == y.Events })
}

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

func (v *verdict) compareLive(ctx context.Context, l *live, t truth) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for _, source := range l.sources {
		want := t.stages(source, dayAgo())
		if got, ok := l.settles(ctx, source, want); !ok {
			v.wrong("WebSocket, source %q: %v, want %v", source, got, want)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failures {
		v.wrong("WebSocket: %s", f)
	}
}
