package emit

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace-io/millrace/schemas/event"
)

// shownRules bounds how many rules are told apart. Names in metadata are rules of
// their own, and anyone may invent more.
const shownRules = 50

// faults counts rejected lines by the rule that they break. The first line that
// breaks a rule is printed as it comes, and the counts at the end.
type faults struct {
	out   io.Writer
	rules map[ruleKey]*brokenRule
	order []*brokenRule // in the order of their first lines
	lines int
	shown int
	other int // lines of which no rule has room here
}

type ruleKey struct{ field, code string }

type brokenRule struct {
	event.Invalid
	line  int // the first that breaks it
	last  int // the last
	count int // of lines
}

// add counts a line, and prints it if it is the first to break one of its rules.
func (f *faults) add(line int, broken []event.Invalid) {
	f.lines++
	fresh, known := false, false
	for _, e := range broken {
		key := ruleKey{e.Field, e.Code}
		rule := f.rules[key]
		if rule == nil && len(f.order) < shownRules {
			rule = &brokenRule{Invalid: e, line: line}
			f.rules[key] = rule
			f.order = append(f.order, rule)
			fresh = true
		}
		if rule != nil && rule.last != line {
			rule.count++
			rule.last = line
		}
		known = known || rule != nil
	}
	if !known {
		f.other++
	}
	if fresh {
		f.shown++
		_, _ = fmt.Fprintf(f.out, "line %d: %s\n", line, inWords(broken))
	}
}

// summarize prints how many lines break each rule, unless all of them were printed.
func (f *faults) summarize() {
	if f.lines == f.shown {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d lines were rejected, by rule:\n", f.lines)
	for _, rule := range f.order {
		fmt.Fprintf(&b, "%8d  %s, first line %d\n", rule.count, inWords([]event.Invalid{rule.Invalid}), rule.line)
	}
	if f.other > 0 {
		fmt.Fprintf(&b, "%8d  other rules\n", f.other)
	}
	_, _ = io.WriteString(f.out, b.String())
}

func inWords(broken []event.Invalid) string {
	rules := make([]string, len(broken))
	for i, e := range broken {
		rules[i] = fmt.Sprintf("%v (%s)", &e, e.Code)
	}
	return strings.Join(rules, "; ")
}
