package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what a trial found.
type report struct {
	seed     uint64
	length   time.Duration
	folding  time.Duration // from the last acknowledgement until all was folded
	injected map[kind][]injection
	messages int // acknowledged, repeats included
	connects int // of the WebSocket
	verdict  *verdict
	findings []finding // of workloads
	failures []string  // beside what these say
}

func (r *report) failed() bool {
	if r == nil || r.verdict == nil && len(r.findings) == 0 {
		return true
	}
	if v := r.verdict; v != nil && v.peer != nil { // it is measured, and not held to anything
		return len(v.mismatches) > 0
	} else if v != nil && (len(v.mismatches) > 0 || v.lost > 0 || v.doubled > 0) {
		return true
	}
	return len(r.failures) > 0 || slices.ContainsFunc(r.findings, func(f finding) bool { return len(f.mismatches) > 0 })
}

func (r *report) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(
		w, "fault\ttimes\theld, median\trecovery, median\tat most\tacknowledged\tcounted\tlost\tdoubled\tDLQ\t",
	)
	for _, k := range everyKind() {
		if all := r.injected[k]; len(all) > 0 {
			held, recovery := seconds(all, func(i injection) time.Duration { return i.held }),
				seconds(all, injection.recovery)
			fmt.Fprintf(w, "%s\t%d\t%.1f s\t%.1f s\t%.1f s\t%s\n", k, len(all), held[len(held)/2],
				recovery[len(recovery)/2], recovery[len(recovery)-1],
				r.during(func(at time.Time) bool {
					return slices.ContainsFunc(all, func(i injection) bool { return i.covers(at) })
				}))
		}
	}
	fmt.Fprintf(w, "whole run\t\t\t\t\t%s\n", r.during(func(time.Time) bool { return true }))
	w.Flush()
	if v := r.verdict; v != nil {
		fmt.Fprintf(out, "\nseed %d, %s: %d messages acknowledged, ", r.seed, r.length.Round(time.Second), r.messages)
		if v.peer != nil {
			fmt.Fprintf(out, "consumed %.1f s after the last one\n", r.folding.Seconds())
			v.printPeer(out)
			r.list(out, "what else happened", slices.Concat(v.mismatches, r.failures))
			return
		}
		fmt.Fprintf(out, "folded %.1f s after the last one; the WebSocket connected %d times\n",
			r.folding.Seconds(), r.connects)
		fmt.Fprintf(out, "events acknowledged %d, counted %d, lost %d, doubled %d, dead letters %d\n", v.acked,
			v.counted, v.lost, v.doubled, v.letters)
		r.list(out, "views differ from the recount", v.mismatches)
	}
	for _, f := range r.findings {
		fmt.Fprintln(out, f)
		r.list(out, f.title, f.mismatches)
	}
	r.list(out, "what should not have happened", r.failures)
	switch {
	case r.failed():
	case r.verdict == nil:
		fmt.Fprintln(out, "everything was done once")
	default:
		fmt.Fprintln(out, "every view equals the recount")
	}
}

// during are the columns of what was acknowledged at some times: events,
// counted, lost, doubled, dead letters.
func (r *report) during(when func(time.Time) bool) string {
	var events int
	var sum fate
	if r.verdict != nil {
		for _, f := range r.verdict.fates {
			if !when(f.at) {
				continue
			}
			events += min(1, f.counted+f.lost)
			sum.counted, sum.lost, sum.doubled, sum.letters = sum.counted+f.counted, sum.lost+f.lost,
				sum.doubled+f.doubled, sum.letters+f.letters
		}
	}
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t", events, sum.counted, sum.lost, sum.doubled, sum.letters)
}

func (r *report) list(out io.Writer, title string, lines []string) {
	const shown = 12
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s (%d):\n", title, len(lines))
	for _, line := range lines[:min(shown, len(lines))] {
		fmt.Fprintln(out, "  "+strings.ReplaceAll(line, "\n", "\n    "))
	}
}

// seconds are sorted.
func seconds(all []injection, of func(injection) time.Duration) []float64 {
	var s []float64
	for _, i := range all {
		s = append(s, of(i).Seconds())
	}
	slices.Sort(s)
	return s
}
