package reconcile

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Print writes a report for people.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Reconciliation Report (%s)\n", r.title())
	var name, pipeline, source, delta int
	for _, s := range r.Stages {
		name, pipeline, source = max(name, len(s.Name)), max(pipeline, len(thousands(s.Pipeline))),
			max(source, len(thousands(s.Source)))
		delta = max(delta, len(signed(s.Delta)))
	}
	for _, s := range r.Stages {
		fmt.Fprintf(&b, "  %-*s pipeline=%-*s  source=%-*s  delta=%-*s %s", max(name, 10)+1, s.Name+":", pipeline,
			thousands(s.Pipeline),
			source, thousands(s.Source), max(delta, 6), signed(s.Delta), s.Status)
		if s.Status == Expected {
			fmt.Fprintf(&b, " (%s)", strings.Join(s.Outages, ", "))
		}
		b.WriteString("\n")
	}
	r.plan(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) title() string {
	if r.Timezone == "UTC" {
		return r.Date
	}
	return r.Date + " " + r.Timezone
}

func (r *Report) plan(b *strings.Builder) {
	if len(r.Plan) == 0 {
		return
	}
	b.WriteString("\nReplay plan for unexpected gaps:\n")
	for _, s := range r.Plan {
		head := "  " + s.Stage + ": "
		fmt.Fprintf(b, "%s%s\n%s→ EmitBatch to pipeline with stage=%s\n", head, s.Query,
			strings.Repeat(" ", len(head)), s.Stage)
		if r.Replayed {
			fmt.Fprintf(b, "%s→ replayed %s events\n", strings.Repeat(" ", len(head)), thousands(s.Events))
			if s.Conflicts > 0 {
				fmt.Fprintf(b, "%s→ not replayed, since events of another stage or service have their keys: %s\n",
					strings.Repeat(" ", len(head)), thousands(s.Conflicts))
			}
		}
	}
}

// signed is a delta: with a sign, unless there is none.
func signed(n int64) string {
	if n > 0 {
		return "+" + thousands(n)
	}
	return thousands(n)
}

// thousands writes a number with separators.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
