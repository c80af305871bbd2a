package main

import (
	"fmt"
	"os"
	"strings"
)

// The table of a page is between these marks.
const (
	pageBegin = "<!-- bench: begin -->\n"
	pageEnd   = "<!-- bench: end -->\n"
)

// splitPage returns what a page has before and after its table.
func splitPage(file string) (before, after string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	before, rest, begins := strings.Cut(string(text), pageBegin)
	_, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		return "", "", fmt.Errorf("%s has no lines %q and %q, between which to write the table", file,
			pageBegin, pageEnd)
	}
	return before, after, nil
}

// intoPage replaces the table of a page.
func (r report) intoPage(file string) error {
	before, after, err := splitPage(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+pageBegin+r.markdown()+pageEnd+after), 0o644)
}

// markdown is the report as Markdown: the machine, and a table for each section.
func (r report) markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s, %d cores, %.0f GB, Linux %s, %s, %s, commit `%s`.\n", m.CPU, m.Cores, m.Memory, m.Kernel, m.Go,
		m.Date, m.Commit)
	fmt.Fprintf(&b, "%s events, medians of %d runs (lowest to highest).\n", thousands(fmt.Sprint(r.Events)), r.Runs)
	section, name := "", ""
	for _, l := range r.Lines {
		if l.Section != section {
			section, name = l.Section, ""
			fmt.Fprintf(&b, "\n| %s | figure | compared with | ratio |\n|---|---|---|---|\n", section)
		}
		figure := [2]string{}
		if l.Name != name {
			name = l.Name
			figure = [2]string{l.Name, number(l.Value) + " " + l.Unit}
			if r.Runs > 1 {
				figure[1] += fmt.Sprintf(" (%s to %s)", number(l.Low), number(l.High))
			}
		}
		peer, times := "", ""
		if l.Peer != "" {
			peer, times = fmt.Sprintf("%s: %s %s", l.Peer, number(l.Against), l.Unit), ratio(l.Ratio)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", figure[0], figure[1], peer, times)
	}
	return b.String()
}
