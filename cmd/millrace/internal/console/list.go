package console

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// listed is a list of the API, and the columns in which it is printed.
type listed[T any] struct {
	path  string   // in the API
	rows  string   // the member of an answer that has the rows
	one   string   // what a row is
	names []string // of the columns
	cells func(T) []any
}

// print prints up to limit rows (0: all) page by page, as a table or as a line of
// JSON each.
func (l listed[T]) print(con *Console, s Server, query url.Values, limit int, asJSON bool) error {
	printed := 0
	var last *table
	printPage := func(documents []json.RawMessage) (bool, error) {
		printed += len(documents)
		if asJSON || len(documents) == 0 {
			return true, printLines(con.Out, documents)
		}
		t, err := l.table(documents)
		if err == nil {
			err = t.after(last, con.Out)
		}
		last = t
		return true, err
	}
	more, err := s.list(con.Ctx, l.path, l.rows, query, limit, printPage)
	if err != nil || asJSON {
		return err
	}
	return con.endList(printed, more, l.one+"s")
}

func (l listed[T]) table(documents []json.RawMessage) (*table, error) {
	t := newTable(l.names...)
	for _, document := range documents {
		var row T
		if err := json.Unmarshal(document, &row); err != nil {
			return nil, fmt.Errorf("read a %s: %w", l.one, err)
		}
		t.add(l.cells(row)...)
	}
	return t, nil
}
