package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// dimension is what an event counts by in the totals.
type dimension struct{ name, value string }

// dimensions of an event: the empty one, in which every event counts once, and
// one for each value that it has.
func (e *told) dimensions() []dimension {
	all := []dimension{{}}
	for _, d := range []dimension{
		{"service", e.Service},
		{"model_version", e.meta.model},
		{"content_type", e.meta.content},
		{"channel", e.meta.channel},
	} {
		if d.value != "" {
			all = append(all, d)
		}
	}
	for _, topic := range distinct(e.meta.topics) {
		if topic != "" {
			all = append(all, dimension{"topic", topic})
		}
	}
	return all
}

func distinct(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

const (
	// totalsColumns are those of daily_totals and monthly_totals; the first
	// totalsKey of them name a row.
	totalsColumns = `toString(period), stage, source_name, dimension, value,
		events, reclassifications, duplicates, backfilled, quality_events, quality_sum,
		arrayStringConcat(arrayMap((v, n) -> concat(toString(v), ':', toString(n)), tupleElement(quality, 1), tupleElement(quality, 2)),
			' '),
		articles`
	totalsKey = 5
)

// totalsRow is a row of these views. Quality scores are whole or half points, so
// that their sums are exact in any order, and rounding to a tenth changes none.
type totalsRow struct {
	tally
	reclassified, duplicate, backfilled, scored int
	sum                                         float64
	scores                                      map[float64]int
}

func newTotalsRow() *totalsRow {
	return &totalsRow{tally: *newTally(), scores: map[float64]int{}}
}

func (n *totalsRow) add(e *told) {
	n.tally.add(e.fact)
	n.reclassified += btoi(e.meta.reclassified)
	n.duplicate += btoi(e.meta.duplicate)
	n.backfilled += btoi(e.meta.backfilled)
	if q := e.meta.quality; q != nil {
		n.scored++
		n.sum += *q
		n.scores[*q]++
	}
}

func byDay(at time.Time) string   { return at.Format(time.DateOnly) }
func byMonth(at time.Time) string { return at.Format("2006-01") + "-01" }

// totals are the rows of a stage by their names.
func (t truth) totals(stage string, period func(time.Time) string) map[string]*totalsRow {
	rows := map[string]*totalsRow{}
	for _, e := range t.told {
		if e.Stage != stage {
			continue
		}
		begin := period(time.Unix(0, e.at).UTC())
		for _, d := range e.dimensions() {
			key := line(begin, stage, e.Source, d.name, d.value)
			if rows[key] == nil {
				rows[key] = newTotalsRow()
			}
			rows[key].add(e)
		}
	}
	return rows
}

// texts are the columns behind the name, but for the articles.
func (n *totalsRow) texts() []string {
	var scores []string
	for _, v := range slices.Sorted(maps.Keys(n.scores)) {
		scores = append(scores, fmt.Sprint(decimal(v), ":", n.scores[v]))
	}
	return []string{
		fmt.Sprint(n.events), fmt.Sprint(n.reclassified), fmt.Sprint(n.duplicate), fmt.Sprint(n.backfilled),
		fmt.Sprint(n.scored), decimal(n.sum), strings.Join(scores, " "),
	}
}

const (
	// fewArticles is up to how many articles the database's uniqCombined64 is
	// exact, with room to spare: it keeps some thousands of hashes.
	fewArticles = 2000
	// articlesError is five standard errors of what it estimates beyond.
	articlesError = 0.02
)

// differs says how a row, without its name, differs from what it has to be.
func (n *totalsRow) differs(row []string) string {
	want, last := n.texts(), len(row)-1
	if !slices.Equal(row[:last], want) {
		return fmt.Sprintf("%q, want %q", row[:last], want)
	}
	articles, err := strconv.ParseFloat(row[last], 64)
	off := math.Abs(articles - float64(len(n.articles)))
	if err != nil || off > 0 && (len(n.articles) <= fewArticles || off > articlesError*float64(len(n.articles))) {
		return fmt.Sprintf("%s articles, want %d", row[last], len(n.articles))
	}
	return ""
}

// unretiredRows sums up every column of the view unretired.
const unretiredRows = `SELECT stage, dimension, value, count(), sum(seq),
	sum(toUnixTimestamp64Nano(occurred_at) % 1000003),
	uniqExact(source_name), uniqExact(article_hash), sum(ifNull(quality_score, 0)), sum(tenth),
	countIf(is_reclassification), countIf(is_duplicate), countIf(is_backfilled)
	FROM unretired GROUP BY stage, dimension, value`

// unretired are the same sums of the events, none of which is old enough to be
// retired.
func (t truth) unretired() map[string]string {
	type group struct {
		totalsRow
		seqs    uint64
		times   int64
		sources map[string]bool
	}
	groups := map[string]*group{}
	for _, e := range t.told {
		for _, d := range e.dimensions() {
			key := line(e.Stage, d.name, d.value)
			if groups[key] == nil {
				groups[key] = &group{totalsRow: *newTotalsRow(), sources: map[string]bool{}}
			}
			g := groups[key]
			g.totalsRow.add(e)
			g.seqs, g.times, g.sources[e.Source] = g.seqs+e.seq, g.times+e.at%1_000_003, true
		}
	}
	rows := map[string]string{}
	for key, g := range groups {
		rows[key] = line(g.events, g.seqs, g.times, len(g.sources), len(g.articles), decimal(g.sum), decimal(g.sum),
			g.reclassified, g.duplicate, g.backfilled)
	}
	return rows
}
