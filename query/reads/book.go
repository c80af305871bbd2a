package reads

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"
)

// Bounds of Excel, and of the XML of a sheet: from 4 GiB on, readers want another form of zip.
const (
	maxSheetRows  = 1_048_576
	maxCellUnits  = 32_767 // of UTF-16
	maxSheetBytes = 3 << 30
)

// bookWriter writes XLSX. Cells are texts, and never formulas. What a sheet cannot hold goes on in the
// next one, and what a cell cannot hold is in a sheet of its own.
type bookWriter[Row any] struct {
	zip     *zip.Writer
	book    *excelize.File // all but the sheets of rows, which are in the zip before it
	written map[string]bool
	made    int // sheets, of any kind
	most    int // rows of a sheet
	temp    string
	columns []string
	cells   func(Row) ([]string, error)

	sheets int
	name   string
	sheet  *sheetWriter
	row    int
	bytes  int

	others   *excelize.StreamWriter // texts that cells cannot hold; nil: there is none
	otherRow int
}

func newBookWriter[Row, P any](w io.Writer, t *Table[Row, P]) (*bookWriter[Row], error) {
	b := &bookWriter[Row]{
		zip: zip.NewWriter(w), book: excelize.NewFile(excelize.Options{TmpDir: t.Temp}), written: map[string]bool{},
		most: maxSheetRows, temp: t.Temp, columns: t.Columns, cells: t.Cells,
	}
	return b, b.next()
}

// next begins a sheet.
func (b *bookWriter[Row]) next() (err error) {
	if b.sheet != nil {
		if err := b.sheet.end(); err != nil {
			return err
		}
	}
	b.sheets++
	b.made++
	b.name, b.row, b.bytes = "Results", 0, 0
	if b.sheets == 1 {
		err = b.book.SetSheetName("Sheet1", b.name)
	} else {
		b.name = fmt.Sprintf("Results %d", b.sheets)
		_, err = b.book.NewSheet(b.name)
	}
	if err != nil {
		return err
	}
	path := sheetPath(b.made)
	to, err := b.zip.Create(path)
	if err != nil {
		return err
	}
	b.written[path] = true
	b.sheet = &sheetWriter{to: to, temp: b.temp, first: b.sheets == 1}
	return b.record(b.columns)
}

func (b *bookWriter[Row]) write(page []Row) error {
	for _, row := range page {
		cells, err := b.cells(row)
		if err != nil {
			return err
		}
		if b.row == b.most || b.bytes > maxSheetBytes {
			if err := b.next(); err != nil {
				return err
			}
		}
		if err := b.record(cells); err != nil {
			return err
		}
	}
	return nil
}

func (b *bookWriter[Row]) record(cells []string) error {
	b.row++
	values, size := make([]any, len(cells)), 0
	for i, text := range cells {
		size += 64 + len(text)
		b.bytes += 64 + 6*len(text) // of XML, at most
		shown, err := b.fit(i, text)
		if err != nil {
			return err
		}
		if shown != "" {
			values[i] = shown
		}
	}
	return b.sheet.write(b.row, values, size)
}

// fit returns what a cell can hold of a text. A text that it cannot hold as it is goes to another sheet.
func (b *bookWriter[Row]) fit(column int, text string) (string, error) {
	form := ""
	whole := text
	if strings.ContainsFunc(text, noXML) || !utf8.ValidString(text) {
		form = "JSON"
		encoded, err := json.Marshal(text)
		if err != nil {
			return "", err
		}
		whole = string(encoded)
	}
	shown := prefix(text)
	if form == "" && len(shown) < len(text) {
		form = "text"
	}
	if form == "" {
		return text, nil
	}
	at, err := excelize.CoordinatesToCellName(column+1, b.row)
	if err != nil {
		return "", err
	}
	return shown, b.other(at, form, whole)
}

// noXML tells of a character that XML 1.0 has no way to write.
func noXML(r rune) bool {
	return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
}

// prefix is as much of a text as a cell can hold.
func prefix(text string) string {
	if len(text) <= maxCellUnits {
		return text
	}
	units := 0
	for i, r := range text {
		if units++; r > 0xffff {
			units++
		}
		if units > maxCellUnits {
			return text[:i]
		}
	}
	return text
}

// other writes a text in parts to the sheet of those that cells cannot hold.
func (b *bookWriter[Row]) other(at, form, text string) (err error) {
	if b.others == nil {
		if _, err := b.book.NewSheet("Long texts"); err != nil {
			return err
		}
		b.made++
		if b.others, err = b.book.NewStreamWriter("Long texts"); err != nil {
			return err
		}
		b.otherRow = 1
		if err := b.others.SetRow("A1", []any{"sheet", "cell", "part", "form", "text"}); err != nil {
			return err
		}
	}
	for part := 1; text != ""; part++ {
		if b.otherRow++; b.otherRow > maxSheetRows {
			return fmt.Errorf("more than %d parts of texts are too long for cells", maxSheetRows-1)
		}
		of := prefix(text)
		text = text[len(of):]
		err := b.others.SetRow(fmt.Sprintf("A%d", b.otherRow), []any{b.name, at, part, form, of})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bookWriter[Row]) end() error {
	if err := b.sheet.end(); err != nil {
		return err
	}
	if b.others != nil {
		if err := b.others.Flush(); err != nil {
			return err
		}
	}
	b.book.SetZipWriter(func(io.Writer) excelize.ZipWriter { return others{b.zip, b.written} })
	if err := b.book.Write(io.Discard); err != nil {
		return err
	}
	if len(b.written) > 0 {
		return fmt.Errorf("sheets are no part of the book: %v", b.written)
	}
	return nil
}

// Close deletes the temporary files.
func (b *bookWriter[Row]) Close() error { return errors.Join(b.sheet.close(), b.book.Close()) }
