package reads

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"time"

	kzstd "github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Format is the parameter that says what a file is.
type Format struct {
	Format string `query:"format" enum:"csv,ndjson,ndjson.zst,parquet" default:"csv" doc:"CSV as in RFC 4180, JSON lines with the rows as the list has them, the same compressed by zstd, or Parquet. In CSV an apostrophe stands before a text that a spreadsheet would take for a formula"`
}

// NewExportPlaces returns the places of exports of a kind, of which one caller may have half.
func NewExportPlaces() *Places { return NewPlaces("exports", 4, 2) }

// types of content by the names of formats, which files end in.
var types = map[string]string{
	"csv":        "text/csv; charset=utf-8; header=present",
	"ndjson":     "application/x-ndjson",
	"ndjson.zst": "application/zstd",
	"parquet":    "application/vnd.apache.parquet",
	"xlsx":       "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}

// ContentTypes are those of the formats that Format has.
func ContentTypes() []string { return TypesOf("csv", "ndjson", "ndjson.zst", "parquet") }

// TypesOf returns the content types of formats.
func TypesOf(formats ...string) (all []string) {
	for _, name := range formats {
		all = append(all, types[name])
	}
	return all
}

// Table says how rows are written: as JSON as they are, in CSV and XLSX by columns, and in
// Parquet as rows of P, or as the texts of the columns.
type Table[Row, P any] struct {
	Name    string   // of the files, such as events
	Columns []string // of CSV and XLSX
	Cells   func(Row) ([]string, error)
	Parquet func(Row) P                               // nil: Texts
	Texts   func(Row) (texts []string, absent []bool) // absent: those that are null; nil: none is
	Temp    string                                    // folder for the temporary files of XLSX; empty: that of the system
}

// Pages returns the next page of rows each time, and whether there are more.
type Pages[Row any] func(context.Context) (page []Row, more bool, err error)

// File is a file of all pages. No more than one is held at a time.
func (t *Table[Row, P]) File(f Format, now time.Time, next Pages[Row]) File {
	return File{
		Name:        t.Name + "-" + now.UTC().Format("20060102T150405Z") + "." + f.Format,
		ContentType: types[f.Format],
		Write: func(ctx context.Context, w io.Writer) error {
			return t.Write(ctx, f.Format, w, next)
		},
	}
}

// Write writes all pages in a format.
func (t *Table[Row, P]) Write(ctx context.Context, format string, w io.Writer, next Pages[Row]) error {
	out, err := t.begin(format, w)
	if err != nil {
		return fmt.Errorf("begin a file of %s: %w", t.Name, err)
	}
	if book, temporary := out.(io.Closer); temporary {
		defer book.Close()
	}
	return t.write(ctx, out, next)
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
	if err := out.end(); err != nil {
		return fmt.Errorf("end a file of %s: %w", t.Name, err)
	}
	return nil
}

// writer writes rows in a format.
type writer[Row any] interface {
	write([]Row) error
	end() error // ends the file
}

func (t *Table[Row, P]) begin(format string, w io.Writer) (writer[Row], error) {
	switch format {
	case "csv":
		out := &csvWriter[Row]{to: bufio.NewWriterSize(w, csvBuffer), cells: t.Cells}
		out.csv = csv.NewWriter(&out.line)
		return out, out.record(t.Columns)
	case "ndjson":
		return newLineWriter[Row](w), nil
	case "ndjson.zst":
		out, err := kzstd.NewWriter(w, kzstd.WithEncoderConcurrency(1), kzstd.WithEncoderCRC(true)) // a frame ends with a checksum
		return zstdWriter[Row]{newLineWriter[Row](out), out}, err
	case "xlsx":
		return newBookWriter(w, t)
	default:
		if t.Parquet == nil {
			return newColumnWriter(w, t), nil
		}
		return parquetWriter[Row, P]{
			parquet.NewGenericWriter[P](w, parquet.Compression(&zstd.Codec{})), t.Parquet,
		}, nil
	}
}

// csvBuffer is how many bytes of CSV are written at once.
const csvBuffer = 64 << 10

// csvWriter ends records with CRLF, and leaves line breaks within cells as they are: csv.Writer.UseCRLF
// would change them, too.
type csvWriter[Row any] struct {
	to    *bufio.Writer
	csv   *csv.Writer // of one record
	line  bytes.Buffer
	cells func(Row) ([]string, error)
}

func (w *csvWriter[Row]) write(page []Row) error {
	for _, row := range page {
		cells, err := w.cells(row)
		if err != nil {
			return err
		}
		if err := w.record(cells); err != nil {
			return err
		}
	}
	return w.to.Flush()
}

func (w *csvWriter[Row]) record(cells []string) error {
	w.line.Reset()
	if err := w.csv.Write(cells); err != nil {
		return err
	}
	w.csv.Flush()
	_, _ = w.to.Write(bytes.TrimSuffix(w.line.Bytes(), []byte("\n"))) // bufio keeps an error for the next
	_, err := w.to.WriteString("\r\n")
	return err
}

func (w *csvWriter[Row]) end() error { return w.to.Flush() }

type lineWriter[Row any] struct{ *json.Encoder }

func (w lineWriter[Row]) write(page []Row) error {
	for i := range page {
		if err := w.Encode(&page[i]); err != nil {
			return err
		}
	}
	return nil
}

func (lineWriter[Row]) end() error { return nil }

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

func (w zstdWriter[Row]) end() error { return w.out.Close() }

type parquetWriter[Row, P any] struct {
	out *parquet.GenericWriter[P]
	row func(Row) P
}

// write makes a row group of a page, of which nothing stays in memory but where
// it is.
func (w parquetWriter[Row, P]) write(page []Row) error {
	rows := make([]P, 0, len(page))
	for _, row := range page {
		rows = append(rows, w.row(row))
	}
	if _, err := w.out.Write(rows); err != nil {
		return err
	}
	return w.out.Flush()
}

func (w parquetWriter[Row, P]) end() error { return w.out.Close() }

// TimeCell is a time as a cell of CSV; nil is an empty one.
func TimeCell(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// JSONCell returns a document without line breaks, which some writers of JSON put in
// and some readers of CSV cannot take; empty for null.
func JSONCell(document json.RawMessage) (string, error) {
	if string(document) == "null" {
		return "", nil
	}
	var line bytes.Buffer
	err := json.Compact(&line, document)
	return line.String(), err
}
