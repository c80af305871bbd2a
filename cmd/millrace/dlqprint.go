package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace-io/millrace/cmd/millrace/internal/console"
	"github.com/millrace-io/millrace/ingest/dlq"
)

// letterPrinter prints letters page by page, as a table or as a line of JSON
// each. The columns of a page are as wide as that page needs.
type letterPrinter struct {
	out     io.Writer
	json    bool
	printed int
}

func newLetterPrinter(out io.Writer, json bool) *letterPrinter {
	return &letterPrinter{out: out, json: json}
}

func (p *letterPrinter) letters(letters []dlq.Letter) error {
	if p.json {
		e := json.NewEncoder(p.out)
		e.SetEscapeHTML(false)
		for _, l := range letters {
			if err := e.Encode(l); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	if p.printed == 0 && len(letters) > 0 {
		fmt.Fprintln(t, "ID\tORIGIN\tRECEIVED\tSUBJECT\tCODE\tREASON")
	}
	for _, l := range letters {
		reason := l.Reason
		if l.Field != "" {
			reason = l.Field + ": " + reason
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", l.ID, console.Plain(l.Origin), l.ReceivedAt.Format(time.DateTime),
			console.Plain(l.Subject), console.Plain(l.Code), console.Plain(reason))
	}
	p.printed += len(letters)
	return t.Flush()
}

// end says what the table does not.
func (p *letterPrinter) end(more bool) (err error) {
	switch {
	case p.json:
	case more:
		_, err = fmt.Fprintf(p.out, "%d letters; there may be more (--limit)\n", p.printed)
	case p.printed == 0:
		_, err = fmt.Fprintln(p.out, "no dead letters")
	}
	return err
}

func printLetter(w io.Writer, l dlq.LetterDetail) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"letter", strconv.FormatUint(l.ID, 10)},
		{"origin", l.Origin},
		{"subject", l.Subject},
		{"received", l.ReceivedAt.Format(time.RFC3339Nano)},
		{"dead since", l.DeadAt.Format(time.RFC3339Nano)},
		{"code", l.Code},
		{"field", l.Field},
		{"reason", l.Reason},
		{"size", sizeOf(l.Letter)},
	} {
		fmt.Fprintf(t, "%s:\t%s\n", line[0], console.Plain(line[1]))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		if !strings.HasPrefix(name, "Millrace-") { // those are above
			fmt.Fprintf(t, "%s:\t%s\n", console.Plain(name), console.Plain(strings.Join(l.Headers[name], ", ")))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	title := "body"
	if l.BodyEncoding != "text" {
		title += " (" + l.BodyEncoding + ")"
	}
	_, err := fmt.Fprintf(w, "%s:\n%s\n", title, console.Plain(l.Body))
	return err
}

func sizeOf(l dlq.Letter) string {
	size := strconv.Itoa(l.Size) + " bytes"
	if l.Cut != 0 {
		size += " of " + strconv.Itoa(l.Size+l.Cut)
	}
	return size
}

func printReport(w io.Writer, r dlq.LetterReport) error {
	var b strings.Builder
	if r.DryRun {
		b.WriteString("dry run: ")
	}
	fmt.Fprintf(&b, "matched %d, replayed %d (%d of them by an earlier replay), kept %d, deleted %d\n", r.Matched,
		r.Replayed, r.Duplicates, r.Kept, r.Deleted)
	for _, code := range slices.Sorted(maps.Keys(r.Reasons)) {
		fmt.Fprintf(&b, "  kept for %s: %d\n", console.Plain(code), r.Reasons[code])
	}
	for _, k := range r.Letters {
		fmt.Fprintf(&b, "  letter %d (%s) kept: %s\n", k.ID, console.Plain(k.Origin),
			console.Plain(strings.TrimPrefix(k.Field+": "+k.Rule, ": ")))
	}
	if r.Kept > len(r.Letters) {
		fmt.Fprintf(&b, "  and %d more\n", r.Kept-len(r.Letters))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
