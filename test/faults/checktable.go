package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// rowsAtOnce bounds how much of the stream is compared with the events table at
// a time.
const rowsAtOnce = 10_000

// compareEvents holds the events table to one row an identity, that of its
// first sighting, and each column of it to what was said there.
func (v *verdict) compareEvents(ctx context.Context, db database, t truth, acked map[string]time.Time) error {
	byID, seen := map[string]*told{}, map[string]int{}
	for _, e := range t.told {
		byID[e.fact.id] = e
	}
	for from := uint64(0); from <= t.last; from += rowsAtOnce {
		where := fmt.Sprintf("seq >= %d", from)
		if to := from + rowsAtOnce; to <= t.last { // else: and whatever there is beyond
			where += fmt.Sprintf(" AND seq < %d", to)
		}
		rows, err := db.query(ctx, "SELECT "+eventColumns+" FROM events WHERE "+where)
		if err != nil {
			return err
		}
		v.counted += len(rows)
		for _, r := range rows {
			v.compareEvent(r, byID, seen)
		}
	}
	v.fateOf(t, seen, acked)
	return nil
}

func (v *verdict) compareEvent(r []string, byID map[string]*told, seen map[string]int) {
	raw, _ := hex.DecodeString(r[0]) // of bad text nothing is known
	id := string(raw)
	e := byID[id]
	if seen[id]++; e == nil {
		v.wrong("events: a row that nobody sent: %q", r)
		return
	}
	switch want := e.columns(); {
	case seen[id] > 1:
		v.doubled++
	case r[1] != want[1]:
		v.wrong("events: %s counts at sequence %s, its first sighting is %s", e.fact.msgID, r[1], want[1])
	default:
		for i, name := range strings.Fields(eventNames) {
			if r[i] != want[i] {
				v.wrong("events: %s has %s %q, want %q", e.fact.msgID, name, r[i], want[i])
			}
		}
	}
}

// fateOf says what became of each event by the rows of each identity.
func (v *verdict) fateOf(t truth, seen map[string]int, acked map[string]time.Time) {
	for id, f := range t.facts {
		if at, ok := acked[id]; ok {
			v.fates = append(v.fates, fate{
				at: at, counted: seen[id], lost: max(0, 1-seen[id]),
				doubled: max(0, seen[id]-1),
			})
		}
		if seen[id] == 0 {
			if v.lost++; v.lost <= 3 {
				v.wrong("events: %s is lost", f.msgID)
			}
		}
	}
}

// compareViews holds the analysts' views to the recount, row by row.
func (v *verdict) compareViews(ctx context.Context, db database, t truth) error {
	for _, view := range []struct {
		name string
		key  int // columns that name a row
		sql  string
		want map[string]string
	}{
		{
			"articles", 1,
			"SELECT url_hash, url, domain, source_name, toUnixTimestamp64Nano(first_seen_at) FROM articles",
			t.articles(),
		},
		{"journeys", 2, "SELECT url_hash, stage, toUnixTimestamp64Nano(first_at), events FROM journeys", t.journeys()},
		{
			"SQL over events", 2,
			"SELECT stage, source_name, count(), uniqExact(url_hash) FROM events GROUP BY stage, source_name",
			t.bySource(),
		},
		{"unretired", 3, unretiredRows, t.unretired()},
	} {
		rows, err := db.query(ctx, view.sql)
		if err != nil {
			return err
		}
		if len(rows) != len(view.want) {
			v.wrong("%s: %d rows, want %d", view.name, len(rows), len(view.want))
		}
		for _, r := range rows {
			key, got := strings.Join(r[:view.key], "|"), strings.Join(r[view.key:], "|")
			if want := view.want[key]; got != want {
				v.wrong("%s: %s is %s, want %s", view.name, key, got, want)
			}
			delete(view.want, key) // each is there once
		}
	}
	return v.compareTotals(ctx, db, t)
}

// compareTotals holds everything that has ever been counted, by day and by
// month, to the recount, a stage at a time.
func (v *verdict) compareTotals(ctx context.Context, db database, t truth) error {
	for view, period := range map[string]func(time.Time) string{"daily_totals": byDay, "monthly_totals": byMonth} {
		for _, stage := range stageNames() {
			want := t.totals(stage, period)
			rows, err := db.query(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE stage = '%s'", totalsColumns, view, stage))
			if err != nil {
				return err
			}
			if len(rows) != len(want) {
				v.wrong("%s: %d rows of stage %s, want %d", view, len(rows), stage, len(want))
			}
			for _, r := range rows {
				key := strings.Join(r[:totalsKey], "|")
				if n := want[key]; n == nil {
					v.wrong("%s: a row too many: %q", view, r)
				} else if text := n.differs(r[totalsKey:]); text != "" {
					v.wrong("%s: %s: %s", view, key, text)
				}
				delete(want, key)
			}
		}
	}
	return nil
}
