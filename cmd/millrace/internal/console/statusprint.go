package console

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// write prints the status in words and columns.
func (st Status) write(w io.Writer) error {
	var b strings.Builder
	verdict := "all is well"
	if !st.Well {
		verdict = "not all is well"
	}
	fmt.Fprintf(&b, "Millrace %s at %s: %s\n", Plain(st.Version), st.URL, verdict)
	for _, text := range st.Problems {
		fmt.Fprintf(&b, "  ! %s\n", Plain(text))
	}
	for _, text := range st.Attention {
		fmt.Fprintf(&b, "  - %s\n", Plain(text))
	}
	for _, part := range []struct {
		name, title string
		table       func() *table
	}{
		{"lag", "Lag behind the event stream", st.lagTable},
		{"stages", "Events", st.stageTable},
		{"queues", "Queues", func() *table { return queueTable(st.Queues, st.At) }},
		{"dead_letters", st.lettersTitle(), st.letterTable},
		{"checks", "Parts", func() *table { return checkTable(st.Checks, st.At) }},
	} {
		fmt.Fprintf(&b, "\n%s\n", part.title)
		if why, missing := st.Missing[part.name]; missing {
			fmt.Fprintf(&b, "  not known: %s\n", Plain(why))
			continue
		}
		if t := part.table(); len(t.rows) > 1 {
			if err := t.write(&b, "  "); err != nil {
				return err
			}
		} else {
			b.WriteString("  none\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
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
