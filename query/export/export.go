// Package export writes rows as files: CSV as in RFC 4180, JSON lines, plain or
// compressed by zstd, and Parquet.
package export

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	kzstd "github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/millrace-io/millrace/query/reads"
)

// Format is the parameter that says what a file is.
type Format struct {
	Format string `query:"format" enum:"csv,ndjson,ndjson.zst,parquet" default:"csv" doc:"CSV as in RFC 4180, JSON lines with the rows as the list has them, the same compressed by zstd, or Parquet. In CSV an apostrophe stands before a text that a spreadsheet would take for a formula"`
}

// NewPlaces returns the places of exports of a kind, of which one caller may have half.
func NewPlaces() *reads.Places { return reads.NewPlaces("exports", 4, 2) }

// types of content by the names of formats, which files end in.
var types = map[string]string{
	"csv":        "text/csv; charset=utf-8; header=present",
	"ndjson":     "application/x-ndjson",
	"ndjson.zst": "application/zstd",
	"parquet":    "application/vnd.apache.parquet",
}

// ContentTypes are those of all formats.
func ContentTypes() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(types)) {
		all = append(all, types[name])
	}
	return all
}

// Table says how rows are written: as JSON as they are, in CSV by columns, and in
// Parquet as rows of P.
type Table[Row, P any] struct {
	Name    string   // of the files, such as events
	Columns []string // of CSV
	Cells   func(Row) ([]string, error)
	Parquet func(Row) P
}

// Pages returns the next page of rows each time, and whether there are more.
type Pages[Row any] func(context.Context) (page []Row, more bool, err error)

// File is a file of all pages. No more than one is held at a time.
func (t *Table[Row, P]) File(f Format, now time.Time, next Pages[Row]) reads.File {
	return reads.File{
		Name:        t.Name + "-" + now.UTC().Format("20060102T150405Z") + "." + f.Format,
		ContentType: types[f.Format],
		Write: func(ctx context.Context, w io.Writer) error {
			return t.write(ctx, t.begin(f.Format, w), next)
		},
	}
}

func (t *Table[Row, P]) write(ctx context.Context, out writer[Row], next Pages[Row]) error {
	for more := true; more; {
		var page []Row
		var err error
		if page, more, err = next(ctx); err != nil {
			return err
		}
		if err := out.write(page); err != nil {
			return fmt.Errorf("write %s: %w", t.Name, err)
		}
	}
	if err := out.close(); err != nil {
		return fmt.Errorf("end a file of %s: %w", t.Name, err)
	}
	return nil
}

// writer writes rows in a format.
type writer[Row any] interface {
	write([]Row) error
	close() error // ends the file
}

func (t *Table[Row, P]) begin(format string, w io.Writer) writer[Row] {
	switch format {
	case "csv":
		out := csv.NewWriter(w)
		out.UseCRLF = true
		_ = out.Write(t.Columns) // csv keeps an error for the end
		return csvWriter[Row]{out, t.Cells}
	case "ndjson":
		return newLineWriter[Row](w)
	case "ndjson.zst":
		// It fails for options that contradict each other alone. A frame ends with a checksum.
		out, _ := kzstd.NewWriter(w, kzstd.WithEncoderConcurrency(1), kzstd.WithEncoderCRC(true))
		return zstdWriter[Row]{newLineWriter[Row](out), out}
	default:
		return parquetWriter[Row, P]{
			parquet.NewGenericWriter[P](w, parquet.Compression(&zstd.Codec{})), t.Parquet,
		}
	}
}

type csvWriter[Row any] struct {
	*csv.Writer
	cells func(Row) ([]string, error)
}

func (w csvWriter[Row]) write(page []Row) error {
	for _, row := range page {
		cells, err := w.cells(row)
		if err != nil {
			return err
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	return w.close()
}

func (w csvWriter[Row]) close() error {
	w.Flush()
	return w.Error()
}

type lineWriter[Row any] struct{ *json.Encoder }

func (w lineWriter[Row]) write(page []Row) error {
	for i := range page {
		if err := w.Encode(&page[i]); err != nil {
			return err
		}
	}
	return nil
}

func (lineWriter[Row]) close() error { return nil }

func newLineWriter[Row any](w io.Writer) lineWriter[Row] {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return lineWriter[Row]{out}
}

// zstdWriter compresses lines. The caller gets them in blocks.
type zstdWriter[Row any] struct {
	lineWriter[Row]
	out *kzstd.Encoder
}

func (w zstdWriter[Row]) close() error { return w.out.Close() }

type parquetWriter[Row, P any] struct {
	*parquet.GenericWriter[P]
	row func(Row) P
}

// write makes a row group of a page, of which nothing stays in memory but where
// it is.
func (w parquetWriter[Row, P]) write(page []Row) error {
	rows := make([]P, 0, len(page))
	for _, row := range page {
		rows = append(rows, w.row(row))
	}
	if _, err := w.Write(rows); err != nil {
		return err
	}
	return w.Flush()
}

func (w parquetWriter[Row, P]) close() error { return w.Close() }

// Time is a time as a cell of CSV; nil is an empty one.
func Time(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// JSON returns a document without line breaks, which some writers of JSON put in
// and some readers of CSV cannot take; empty for null.
func JSON(document json.RawMessage) (string, error) {
	if string(document) == "null" {
		return "", nil
	}
	var line bytes.Buffer
	err := json.Compact(&line, document)
	return line.String(), err
}
