package tabular

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/xuri/excelize/v2"
)

// Bounds of what an XLSX may unpack to, in bytes.
const (
	maxUnpacked = 4 << 30
	// maxHeld is of the parts that are held in memory: all but sheets and their texts, such as
	// styles and pictures.
	maxHeld = 64 << 20
	// maxPart is of a sheet, or of the texts of all sheets, that is held in memory. Larger ones are
	// unpacked into a temporary file.
	maxPart  = 4 << 20
	maxParts = 10_000
	// maxText is of what has no tag in it, or of one tag: the library holds it.
	maxText = 4 << 20
)

// Bounds of tags of an XLSX. What is made of a tag in memory is more than a hundred times as large as the shortest one.
const (
	maxTags    = 1_000_000  // of all parts but sheets and their texts
	maxStrings = 20_000_000 // of the texts of all sheets
)

// sheetReader reads the first sheet of an XLSX. Cells are what Excel shows.
type sheetReader struct {
	file   *os.File
	book   *excelize.File
	rows   *excelize.Rows
	sheet  string
	header []string
	no     int64
	line   int64
	cells  []string
	lasts  []int64 // the last row of each sheet; nil: not known
}

func openXLSX(from io.Reader, temp string) (Reader, error) {
	file, err := spool(from, temp)
	if err != nil {
		return nil, err
	}
	r := &sheetReader{file: file}
	if err := r.guard(func() error { return r.open(temp) }); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *sheetReader) open(temp string) error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if r.lasts, err = checkParts(r.file, info.Size()); err != nil {
		return err
	}
	r.book, err = excelize.OpenReader(io.NewSectionReader(r.file, 0, info.Size()), excelize.Options{
		UnzipSizeLimit: maxUnpacked, UnzipXMLSizeLimit: maxPart, TmpDir: temp,
	})
	if err != nil {
		return tableErrorf("the file is no XLSX that can be read: %v", err)
	}
	sheets := r.book.GetSheetList()
	if len(sheets) == 0 {
		return tableErrorf("the XLSX has no sheet")
	}
	r.sheet = sheets[0]
	if r.rows, err = r.book.Rows(r.sheet); err != nil {
		return tableErrorf("the sheet %.100q cannot be read: %v", r.sheet, err)
	}
	return r.readHeader()
}

// guard turns a panic of the library, as files that are made to break it cause, into an error.
func (r *sheetReader) guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = tableErrorf("the XLSX cannot be read: %v", p)
		}
	}()
	return do()
}

func (r *sheetReader) readHeader() error {
	cells, err := r.row()
	if errors.Is(err, io.EOF) {
		return tableErrorf("the sheet %.100q has no row with the names of its columns", r.sheet)
	}
	if err != nil {
		return err
	}
	if len(cells) > MaxColumns {
		return tableErrorf("the sheet %.100q has %d columns, and at most %d are read", r.sheet, len(cells), MaxColumns)
	}
	for _, cell := range cells {
		if fault := cellFault(cell); fault != nil {
			return tableErrorf("in the row with the names of the columns, %s", fault.Text)
		}
	}
	r.header = slices.Clone(cells)
	return nil
}

// row returns the next row with something in it, without the empty cells at its end.
func (r *sheetReader) row() ([]string, error) {
	for r.rows.Next() {
		if r.line++; r.line > excelize.TotalRows {
			return nil, tableErrorf("the sheet %.100q has a row beyond %d", r.sheet, excelize.TotalRows)
		}
		cells, err := r.rows.Columns()
		if err != nil {
			return nil, tableErrorf("the row %d of the sheet %.100q cannot be read: %v", r.line, r.sheet, err)
		}
		for len(cells) > 0 && cells[len(cells)-1] == "" {
			cells = cells[:len(cells)-1]
		}
		if len(cells) > 0 {
			return cells, nil
		}
	}
	if err := r.rows.Error(); err != nil {
		return nil, tableErrorf("the sheet %.100q cannot be read behind row %d: %v", r.sheet, r.line, err)
	}
	if r.lasts != nil && !slices.Contains(r.lasts, r.line) { // the library takes XML that it cannot read for the end
		return nil, tableErrorf("the sheet %.100q is damaged: it cannot be read behind row %d, and has more", r.sheet, r.line)
	}
	return nil, io.EOF
}

func (r *sheetReader) Header() []string { return r.header }

// Next implements Reader.
func (r *sheetReader) Next() (row Row, err error) {
	err = r.guard(func() error {
		cells, err := r.row()
		if err != nil {
			return err
		}
		r.no++
		row = Row{No: r.no, Line: r.line, Fault: rowFault(cells, len(r.header))}
		if row.Fault != nil {
			text := strings.Join(cells, "\t")
			row.Raw = []byte(text[:min(len(text), MaxRaw)])
			return nil
		}
		r.cells = append(r.cells[:0], cells...)
		for len(r.cells) < len(r.header) { // a sheet has no empty cells
			r.cells = append(r.cells, "")
		}
		row.Cells = r.cells
		return nil
	})
	return row, err
}

func rowFault(cells []string, columns int) *Fault {
	size := 0
	for _, cell := range cells {
		if fault := cellFault(cell); fault != nil {
			return fault
		}
		size += len(cell)
	}
	switch {
	case size > MaxRow:
		return faultf("row_size", "the row has more than %d bytes", MaxRow)
	case len(cells) > columns:
		return faultf("cells_count", "the row has %d cells, and the header has %d", len(cells), columns)
	}
	return nil
}

func cellFault(cell string) *Fault {
	if len(cell) > MaxCell {
		return faultf("cell_size", "a cell of the row has more than %d bytes", MaxCell)
	}
	return textFault([]byte(cell), UTF8)
}

// Close removes the temporary files.
func (r *sheetReader) Close() error {
	var errs []error
	if r.rows != nil {
		errs = append(errs, r.rows.Close())
	}
	if r.book != nil {
		errs = append(errs, r.book.Close())
	}
	errs = append(errs, r.file.Close(), os.Remove(r.file.Name()))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close an XLSX: %w", err)
	}
	return nil
}
