package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// better says in which direction a figure improves.
type better string

const (
	more better = "more"
	less better = "less"
)

// line is a figure beside what it is to be compared with.
type line struct {
	Section string
	Name    string // empty: that of the line before, beside another peer
	Unit    string
	Better  better
	Value   float64
	Peer    string // empty: none
	Against float64
}

// summary is a line over all runs.
type summary struct {
	Section string  `json:"section"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Better  better  `json:"better"`
	Value   float64 `json:"median"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Peer    string  `json:"peer,omitempty"`
	Against float64 `json:"peer_median,omitempty"`
	// Ratio is the median of the runs' own ratios: figures of one run lie
	// close enough in time to be compared.
	Ratio float64 `json:"ratio,omitempty"`
}

// summarize takes the medians of runs that have the same lines.
func summarize(runs [][]line) []summary {
	if len(runs) == 0 {
		return nil
	}
	all := make([]summary, len(runs[0]))
	for i, l := range runs[0] {
		var values, against, ratios []float64
		for _, r := range runs {
			values, against = append(values, r[i].Value), append(against, r[i].Against)
			if r[i].Against > 0 {
				ratios = append(ratios, r[i].Value/r[i].Against)
			}
		}
		if l.Name == "" && i > 0 {
			l.Name = all[i-1].Name
		}
		all[i] = summary{
			Section: l.Section, Name: l.Name, Unit: l.Unit, Better: l.Better, Value: quantile(values, .5),
			Low: slices.Min(values), High: slices.Max(values), Peer: l.Peer, Against: quantile(against, .5),
			Ratio: quantile(ratios, .5),
		}
	}
	return all
}

// quantile returns the q-quantile, between the values next to it, and 0 of
// none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func milliseconds(d []time.Duration) []float64 {
	all := make([]float64, len(d))
	for i := range d {
		all[i] = float64(d[i].Microseconds()) / 1e3
	}
	return all
}

type report struct {
	Machine machine   `json:"machine"`
	Events  int       `json:"events"`
	Runs    int       `json:"runs"`
	Lines   []summary `json:"lines"`
}

func (r report) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r report) table(w io.Writer) error {
	fmt.Fprint(w, r.Machine)
	fmt.Fprintf(
		w,
		"%d events, medians of %d runs (lowest to highest); the machine drifts by a quarter, ratios of one run less\n",
		r.Events, r.Runs,
	)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	section, name := "", ""
	for _, l := range r.Lines {
		if l.Section != section {
			section, name = l.Section, ""
			fmt.Fprintf(t, "\n%s\tfigure\tunit\t(low to high)\tcompared with\t\tratio\n", strings.ToUpper(section))
		}
		cells := []string{"", "", "", ""}
		if l.Name != name {
			name = l.Name
			cells = []string{l.Name, number(l.Value), l.Unit, ""}
			if r.Runs > 1 {
				cells[3] = "(" + number(l.Low) + " to " + number(l.High) + ")"
			}
		}
		if l.Peer != "" {
			cells = append(cells, l.Peer, number(l.Against), ratio(l.Ratio))
		} else {
			cells = append(cells, "", "", "") // a line with fewer cells would end the columns
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// ratio prints two digits or more.
func ratio(v float64) string {
	if v < 0.1 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// number prints three digits or more.
func number(v float64) string {
	switch {
	case v >= 100:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func thousands(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
