package sources

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/nearest"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// Lists of sources are OPML, CSV and JSON lines. With each source they have the settings
// that people have set for its job: as columns and attributes that begin with job_, or as
// the member job of a JSON line.
//
// Of OPML the outlines are read that have an xmlUrl, wherever they stand. encoding/xml
// resolves no entities but the five of XML; a document type is refused, and so is nesting
// beyond MaxDepth.

// Formats of lists.
const (
	OPML  = "opml"
	CSV   = "csv"
	JSONL = "jsonl"
)

// ListFormats are all of them.
var ListFormats = []string{OPML, CSV, JSONL}

const (
	// MaxDepth is how deep elements of OPML may be nested.
	MaxDepth = 64
	// MaxLine is the length of a JSON line in bytes.
	MaxLine = 1 << 20
)

// ListLine is what a list says about one source.
type ListLine struct {
	Number int // of the line on which it begins, from 1
	Draft  *source.Draft
	Job    *job.Draft // how its job runs; nil: the list does not say it
}

// ReadList calls do with each source of a list, in order, and ends with its error. It
// returns the columns of CSV that say nothing about a source. An *source.Invalid
// means that the list as a whole cannot be read.
//
// A source that is made without a name has the host of its URL for one.
func ReadList(format string, list io.Reader, do func(ListLine) error) (ignored []string, err error) {
	named := func(line int, d *source.Draft, j *job.Draft) error {
		d.NameByHost()
		return do(ListLine{line, d, j})
	}
	in := bufio.NewReader(list)
	if bom, _ := in.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3) // it has been read
	}
	switch format {
	case OPML:
		return nil, readOPML(in, named)
	case CSV:
		return readCSV(in, named)
	case JSONL:
		return nil, readLines(in, named)
	}
	return nil, &source.Invalid{
		Field: "format", Code: "format_unknown",
		Rule: "must be one of " + strings.Join(ListFormats, ", "),
	}
}

func readLines(list io.Reader, do func(int, *source.Draft, *job.Draft) error) error {
	lines := bufio.NewScanner(list)
	lines.Buffer(nil, MaxLine)
	n := 1
	for ; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		text, settings := cutJob(text)
		d := source.ReadDraft(text)
		if err := do(n, d, readJob(d, "job.", settings)); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return unreadable(n, fmt.Sprintf("must be at most %d bytes long", MaxLine))
	}
	return lines.Err()
}

// unreadable is the error of a list that cannot be read beyond a line.
func unreadable(line int, rule string) error {
	return &source.Invalid{Field: fmt.Sprintf("line %d", line), Code: "unreadable", Rule: rule}
}

func readCSV(list io.Reader, do func(int, *source.Draft, *job.Draft) error) (ignored []string, err error) {
	table := csv.NewReader(list)
	table.FieldsPerRecord = -1 // a row with another number of cells is refused alone
	table.ReuseRecord = true
	head, err := table.Read()
	var wrong *csv.ParseError
	if err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &wrong) { // else it lacks the column
		return nil, err
	}
	columns := make([]string, len(head))
	for i, name := range head {
		columns[i] = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(source.Names, columns[i]) && !slices.Contains(JobColumns, columns[i]) {
			ignored = append(ignored, strings.TrimSpace(name))
		}
	}
	if !slices.Contains(columns, "url") {
		near, _ := nearest.Name("url", head)
		return ignored, unreadable(1, fmt.Sprintf("must be a header with the column url, beside any of %s; the "+
			"nearest is %q",
			strings.Join(append(slices.Clone(source.Names), JobColumns...), ", "), near))
	}
	for {
		row, err := table.Read()
		if errors.Is(err, io.EOF) {
			return ignored, nil
		}
		d := new(source.Draft)
		var wrong *csv.ParseError
		if errors.As(err, &wrong) {
			d.Refuse("", "csv", "must be CSV (RFC 4180): "+wrong.Err.Error())
			if err := do(wrong.StartLine, d, nil); err != nil {
				return ignored, err
			}
			continue
		} else if err != nil {
			return ignored, err
		}
		line, _ := table.FieldPos(0)
		if len(row) != len(columns) {
			d.Refuse("", "cells", fmt.Sprintf("must have %d cells as the header has, and has %d", len(columns),
				len(row)))
		}
		values := map[string]string{}
		for i, cell := range row[:min(len(row), len(columns))] {
			values[columns[i]] = tabular.UnescapeCell(strings.TrimSpace(cell))
			if cell = values[columns[i]]; cell != "" && slices.Contains(source.Names, columns[i]) {
				d.SetText(columns[i], cell)
			}
		}
		if err := do(line, d, readJob(d, jobPrefix, jobTexts(values))); err != nil {
			return ignored, err
		}
	}
}

func readOPML(list io.Reader, do func(int, *source.Draft, *job.Draft) error) error {
	dec := xml.NewDecoder(list)
	root := false
	for depth := 0; ; {
		token, err := dec.Token()
		line, _ := dec.InputPos()
		var wrong *xml.SyntaxError
		switch {
		case errors.Is(err, io.EOF) && root:
			return nil
		case errors.Is(err, io.EOF):
			return unreadable(line, "must be an OPML document")
		case errors.As(err, &wrong):
			return unreadable(wrong.Line, "must be XML: "+wrong.Msg)
		case err != nil:
			return err
		}
		switch t := token.(type) {
		case xml.Directive:
			return unreadable(line, "must have no document type")
		case xml.EndElement:
			depth--
		case xml.StartElement:
			if depth++; depth > MaxDepth {
				return unreadable(line, fmt.Sprintf("must be nested at most %d deep", MaxDepth))
			}
			if !root && t.Name.Local != "opml" {
				return unreadable(line, "must be an OPML document, and begins with <"+t.Name.Local+">")
			}
			if root = true; t.Name.Local == "outline" {
				if d, j := outline(t.Attr); d != nil {
					if err := do(line, d, j); err != nil {
						return err
					}
				}
			}
		}
	}
}

// outline returns the source that an outline is, and how its job runs; nil: it is a folder.
func outline(attributes []xml.Attr) (*source.Draft, *job.Draft) {
	values := map[string]string{}
	for _, a := range attributes {
		values[a.Name.Local] = strings.TrimSpace(a.Value)
	}
	address, isFeed := values["xmlUrl"]
	if !isFeed {
		return nil, nil
	}
	d := new(source.Draft)
	d.SetText("url", address)
	for _, name := range []string{values["title"], values["text"]} {
		if name != "" && !d.Given("name") {
			d.SetText("name", name)
		}
	}
	for _, field := range source.Names {
		if value := values[field]; value != "" && field != "name" && field != "url" {
			d.SetText(field, value)
		}
	}
	return d, readJob(d, jobPrefix, jobTexts(values))
}
