package main

import (
	"cmp"
	"math"
	"slices"
)

// agesOf counts delays by tenths of a millisecond, up to a minute.
type agesOf struct {
	n     uint64
	worst float64
	by    [600_000]uint32
}

func (a *agesOf) add(delay float64) {
	a.n++
	a.worst = max(a.worst, delay)
	a.by[min(int(delay*10), len(a.by)-1)]++
}

// three are the median, the 99th percentile and the worst.
func (a *agesOf) three() [3]float64 { return [3]float64{a.at(.5), a.at(.99), a.worst} }

func (a *agesOf) at(q float64) float64 {
	left := int64(q * float64(a.n))
	for i, n := range a.by {
		if left -= int64(n); left < 0 {
			return float64(i+1) / 10
		}
	}
	return a.worst
}

// viewAges are the delays of a view's changes since they were durable, since they were
// sent, and since the view had them.
type viewAges struct{ durable, sent, shown agesOf }

// compare tells how old each change was when each subscriber had it: with the
// first message that has come as far.
func (c *subscribers) compare(marks []mark) subscriberSeen {
	own := make([][]receipt, len(c.readers))
	seen := subscriberSeen{Views: map[string]subscriberAges{}}
	first, last := measuredTime(marks)
	for _, r := range c.receipts {
		own[r.reader] = append(own[r.reader], r)
		if r.at >= first && r.at <= last {
			seen.Received++
		}
	}
	byView := map[string]*viewAges{"": {}}
	for i, r := range c.readers {
		if byView[r.question.view] == nil {
			byView[r.question.view] = &viewAges{}
		}
		if r.lost {
			seen.Lost++
		}
		mine, missing := delays(r.question, own[i], marks)
		seen.Missing += missing
		for _, d := range mine {
			for _, a := range []*viewAges{byView[""], byView[r.question.view]} {
				a.durable.add(d.durable)
				a.sent.add(d.sent)
				a.shown.add(d.shown)
			}
		}
		if len(mine) > 0 {
			slices.SortFunc(mine, func(a, b delay) int { return cmp.Compare(a.durable, b.durable) })
			seen.WorstReader = max(seen.WorstReader, mine[len(mine)*99/100].durable)
		}
	}
	for name, a := range byView {
		seen.Views[name] = subscriberAges{a.durable.three(), a.sent.three(), a.shown.three()}
	}
	return seen
}

// delay is how old a change was when it was received, in milliseconds since it
// was durable, since it was sent and since the view had it.
type delay struct{ durable, sent, shown float64 }

// delays are those of the changes that a subscriber watches. Missing are the
// changes that it has not received.
func delays(q *subscriberQuestion, got []receipt, marks []mark) (all []delay, missing int) {
	for k := range marks {
		m := &marks[k]
		position := q.shows(m)
		if position == 0 {
			continue
		}
		for len(got) > 0 && got[0].to < position {
			got = got[1:]
		}
		if len(got) == 0 {
			missing++
			continue
		}
		at := got[0].at
		all = append(all, delay{since(at, m.Durable), since(at, m.Sent), since(at, m.Shown)})
	}
	return all, missing
}

// since is from one time to another, in milliseconds; a microsecond where the news
// came before the acknowledgement.
func since(at, from int64) float64 { return float64(max(1, at-from)) / 1e3 }

// measuredTime is from the first mark to the last.
func measuredTime(marks []mark) (first, last int64) {
	first = math.MaxInt64
	for _, m := range marks {
		first, last = min(first, m.Sent), max(last, m.Durable)
	}
	return first, last
}
