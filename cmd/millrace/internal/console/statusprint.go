package console

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// write prints the status in words and columns.
func (st Status) write(w io.Writer) error {
	_, err := io.WriteString(w, st.text(layout{rows: math.MaxInt, spaced: true}))
	return err
}

// layout says how much room a status takes.
type layout struct {
	rows   int  // of each list at most
	spaced bool // blank lines between the parts
}

// text is the status in words and columns. Problems are never left out.
func (st Status) text(l layout) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Millrace %s at %s: %s\n", Plain(st.Version), st.URL, st.verdict())
	for _, text := range st.Problems {
		fmt.Fprintf(&b, "  ! %s\n", Plain(text))
	}
	attention := newTable("")
	for _, text := range st.Attention {
		attention.add("- " + text)
	}
	hidden := attention.keep(l.rows)
	for _, row := range attention.rows[1:] {
		fmt.Fprintf(&b, "  %s\n", row[0])
	}
	more(&b, "  ", hidden)
	for _, part := range st.parts() {
		if l.spaced {
			b.WriteByte('\n')
		}
		part.write(&b, l.rows)
	}
	return b.String()
}

func (st Status) verdict() string {
	switch n := len(st.Attention); {
	case !st.Well:
		return "not all is well"
	case n == 1:
		return "it works, and 1 thing needs attention"
	case n > 1:
		return fmt.Sprintf("it works, and %d things need attention", n)
	default:
		return "all is well"
	}
}

func more(b *strings.Builder, indent string, hidden int) {
	if hidden > 0 {
		fmt.Fprintf(b, "%s… and %d more\n", indent, hidden)
	}
}

// statusPart is a titled table of a status.
type statusPart struct {
	title   string
	missing string // why the table is not known
	table   *table
}

func (st Status) parts() (parts []statusPart) {
	for _, part := range []struct {
		name, title string
		table       func() *table
	}{
		{"lag", "Lag behind the event stream", st.lagTable},
		{"stages", "Events", st.stageTable},
		{"queues", "Queues", func() *table { return queueTable(st.Queues, st.At) }},
		{"dead_letters", st.lettersTitle(), st.letterTable},
		{"processes", "Processes", st.processTable},
		{"checks", "Parts", func() *table { return checkTable(st.Checks, st.At) }},
	} {
		p := statusPart{title: part.title, missing: st.Missing[part.name]}
		if _, missing := st.Missing[part.name]; !missing {
			p.table = part.table()
		}
		parts = append(parts, p)
	}
	return parts
}

// write writes the title and up to so many rows; without any, all on one line.
func (p statusPart) write(b *strings.Builder, rows int) {
	b.WriteString(p.title)
	separator := "\n  "
	if rows == 0 {
		separator = ": "
	}
	switch {
	case p.table == nil:
		fmt.Fprintf(b, "%snot known: %s\n", separator, Plain(p.missing))
	case len(p.table.rows) == 1:
		fmt.Fprintf(b, "%snone\n", separator)
	case rows == 0:
		fmt.Fprintf(b, " (%s)\n", many(len(p.table.rows)-1, "row", "rows"))
	default:
		b.WriteByte('\n')
		hidden := p.table.keep(rows)
		_ = p.table.write(b, "  ") // a builder takes everything
		more(b, "  ", hidden)
	}
}

func (st Status) lagTable() *table {
	t := newTable("SLOT GROUP", "FOLDED", "EVENTS BEHIND", "SECONDS BEHIND")
	for _, g := range st.Lag.Groups {
		t.add(g.Group, g.FoldedSeq, g.EventsBehind, g.SecondsBehind)
	}
	return t
}

func (st Status) stageTable() *table {
	t := newTable("STAGE", "PER SECOND", "LAST MINUTE", "LAST 24 HOURS")
	for _, s := range st.Stages {
		t.add(s.Stage, s.PerSecond, s.LastMinute, s.LastDay)
	}
	return t
}

func queueTable(queues []Queue, now time.Time) *table {
	t := newTable("QUEUE", "READY", "DELAYED", "RUNNING", "DONE", "FAILED", "DEAD", "OLDEST", "")
	for _, q := range queues {
		oldest, paused := "", ""
		if q.OldestSince != nil {
			oldest = short(now.Sub(*q.OldestSince))
		}
		if q.Paused {
			paused = "paused"
		}
		t.add(q.Name, q.Ready, q.Delayed, q.Running, q.Done, q.Failed, q.Dead, oldest, paused)
	}
	return t
}

func (st Status) lettersTitle() string {
	l := st.Letters
	switch {
	case l == nil || l.Count == 0:
		return "Dead letters"
	case l.Count > uint64(l.Counted):
		return fmt.Sprintf("Dead letters: %d, by reason the newest %d", l.Count, l.Counted)
	}
	return fmt.Sprintf("Dead letters: %d", l.Count)
}

func (st Status) letterTable() *table {
	t := newTable("REASON", "FIELD", "LETTERS")
	for _, r := range st.Letters.Reasons {
		t.add(r.Code, r.Field, r.Letters)
	}
	return t
}
