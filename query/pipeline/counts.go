package pipeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Counts are numbers of events by name. As JSON they are an object in which the
// largest stand first.
type Counts map[string]uint64

// Total is what a list by name has in all.
type Total struct {
	Names  uint64 `json:"names" doc:"How many there are" example:"12556"`
	Events uint64 `json:"events" doc:"The sum over all of them" example:"75480"`
}

// Totals are those of the lists of statistics.
type Totals struct {
	BySource  Total `json:"by_source"`
	ByVersion Total `json:"by_model_version"`
	ByTopic   Total `json:"by_topic"`
	ByChannel Total `json:"by_channel"`
}

// names lists the names, those of most events first.
func (c Counts) names() []string {
	return slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b))
	})
}

// MarshalJSON implements json.Marshaler.
func (c Counts) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range c.names() {
		if i > 0 {
			b.WriteByte(',')
		}
		text, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		b.Write(text)
		b.WriteByte(':')
		b.WriteString(strconv.FormatUint(c[name], 10))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// largest returns the names of most events, at most limit.
func (c Counts) largest(limit int) Counts {
	if len(c) <= limit {
		return c
	}
	out := make(Counts, limit)
	for _, name := range c.names()[:limit] {
		out[name] = c[name]
	}
	return out
}

// largest returns statistics whose lists by name have at most limit names.
func (s Stats) largest(limit int) Stats {
	s.Cut = nil
	for _, list := range [...]struct {
		name   string
		counts *Counts
		total  Total
	}{
		{"by_source", &s.Crawl.BySource, s.Totals.BySource},
		{"by_model_version", &s.Classification.ByVersion, s.Totals.ByVersion},
		{"by_topic", &s.Classification.ByTopic, s.Totals.ByTopic},
		{"by_channel", &s.Publishing.ByChannel, s.Totals.ByChannel},
	} {
		*list.counts = list.counts.largest(limit)
		if uint64(len(*list.counts)) < list.total.Names {
			s.Cut = append(s.Cut, list.name)
		}
	}
	return s
}
