package console

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"
)

// table is printed in columns as wide as their widest cell. Numbers stand on
// the right.
type table struct {
	rows  [][]string // the first has the names of the columns
	right []bool
	width []int // of the columns, at least
}

func newTable(names ...string) *table {
	return &table{rows: [][]string{names}, right: make([]bool, len(names)), width: make([]int, len(names))}
}

// add adds a row of numbers, durations and texts.
func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		switch v := cell.(type) {
		case string:
			row[i] = strings.ReplaceAll(Plain(v), "\n", `\n`)
			continue
		case float64:
			row[i] = strconv.FormatFloat(v, 'f', 1, 64)
		case time.Duration:
			row[i] = short(v)
		default:
			row[i] = fmt.Sprint(v)
		}
		t.right[i] = true
	}
	t.rows = append(t.rows, row)
}

// write prints the table, each line behind an indent.
func (t *table) write(w io.Writer, indent string) error {
	for _, row := range t.rows {
		for i, cell := range row {
			t.width[i] = max(t.width[i], uniseg.StringWidth(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		line := indent
		for i, cell := range row {
			space := strings.Repeat(" ", t.width[i]-uniseg.StringWidth(cell))
			if t.right[i] {
				line += space + cell + "  "
			} else {
				line += cell + space + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// after prints the table as the next page of a list, below the page before;
// nil: it is the first. The columns are as wide as there, or wider.
func (t *table) after(before *table, w io.Writer) error {
	if before != nil {
		t.rows, t.width = t.rows[1:], before.width
	}
	return t.write(w, "")
}

// clip cuts the cells that are wider than a column may be, but for the last column.
func (t *table) clip(widths []int) {
	for _, row := range t.rows {
		for i, cell := range row[:len(row)-1] {
			if uniseg.StringWidth(cell) > widths[i] {
				row[i] = cut(cell, widths[i]-1) + "…"
			}
		}
	}
}

// keep leaves the first rows below the names of the columns, and returns how many
// it hides. One row more stays, where a line that says so would take its place.
func (t *table) keep(rows int) (hidden int) {
	if hidden = len(t.rows) - 1 - rows; hidden <= 1 {
		return 0
	}
	t.rows = t.rows[:1+rows]
	return hidden
}

// short is a duration in one or two units: 12s, 3m20s, 2h10m, 4d3h.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 2*day:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// many is a number of things in words.
func many[N int | int64 | uint64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
