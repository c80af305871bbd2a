package reads

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/xuri/excelize/v2"
)

// sheetWriter writes the rows of a sheet into an entry of a zip, a part at a time. The library makes the XML of each part
// as a small book of its own: that of a whole sheet it would hold up to 16 MiB of, in a buffer of twice the size, and
// then write to a temporary file and read again.
type sheetWriter struct {
	to    io.Writer
	temp  string // folder for temporary files
	first bool   // of its book, and so the one that is selected

	book  *excelize.File
	rows  *excelize.StreamWriter // of the part; nil: none is begun
	bytes int                    // of its cells
	xml   bytes.Buffer
	tail  []byte // what follows the last row; nil: no part is written
}

// maxPart is how many bytes the cells of a part have, but for its last row.
const maxPart = 1 << 20

// Each end of the rows in the XML of a sheet, which has neither among its cells.
var rowsBegin, rowsEnd = []byte("<sheetData>"), []byte("</sheetData>")

// write writes the next row, of about so many bytes.
func (s *sheetWriter) write(row int, cells []any, size int) error {
	if s.rows == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	if err := s.rows.SetRow(fmt.Sprintf("A%d", row), cells); err != nil {
		return err
	}
	if s.bytes += size; s.bytes < maxPart {
		return nil
	}
	return s.flush()
}

// begin begins a part.
func (s *sheetWriter) begin() (err error) {
	s.book, s.bytes = excelize.NewFile(excelize.Options{TmpDir: s.temp}), 0
	name := "Sheet1"
	if !s.first {
		name = "Sheet2"
		if _, err := s.book.NewSheet(name); err != nil {
			return err
		}
	}
	s.rows, err = s.book.NewStreamWriter(name)
	return err
}

// flush writes the rows of the part.
func (s *sheetWriter) flush() error {
	if err := s.rows.Flush(); err != nil {
		return err
	}
	from := sheetPath(1)
	if !s.first {
		from = sheetPath(2)
	}
	s.xml.Reset()
	s.book.SetZipWriter(func(io.Writer) excelize.ZipWriter { return entryOf{from, &s.xml} })
	if err := errors.Join(s.book.Write(io.Discard), s.close()); err != nil {
		return err
	}
	head, rest, found := bytes.Cut(s.xml.Bytes(), rowsBegin)
	end := bytes.LastIndex(rest, rowsEnd)
	if !found || end < 0 {
		return errors.New("the XML of a sheet has no rows")
	}
	if s.tail == nil {
		if _, err := s.to.Write(append(bytes.Clone(head), rowsBegin...)); err != nil {
			return err
		}
	}
	s.tail = bytes.Clone(rest[end:])
	_, err := s.to.Write(rest[:end])
	return err
}

// end ends the sheet, which has a row at least.
func (s *sheetWriter) end() error {
	if s.rows != nil {
		if err := s.flush(); err != nil {
			return err
		}
	}
	_, err := s.to.Write(s.tail)
	return err
}

// close deletes the temporary files of a part.
func (s *sheetWriter) close() error {
	if s.rows == nil {
		return nil
	}
	s.rows = nil
	return s.book.Close()
}

// sheetPath is where the n-th sheet of a book is in its zip.
func sheetPath(n int) string { return fmt.Sprintf("xl/worksheets/sheet%d.xml", n) }

// entryOf takes one entry of a zip, and drops the others.
type entryOf struct {
	path string
	to   io.Writer
}

// Create implements excelize.ZipWriter.
func (e entryOf) Create(path string) (io.Writer, error) {
	if path == e.path {
		return e.to, nil
	}
	return io.Discard, nil
}

// AddFS implements excelize.ZipWriter.
func (entryOf) AddFS(fs.FS) error { return errors.ErrUnsupported }

// Close implements excelize.ZipWriter.
func (entryOf) Close() error { return nil }

// others adds all entries to a zip that it does not have yet.
type others struct {
	*zip.Writer
	have map[string]bool // those left are no part of the book
}

// Create implements excelize.ZipWriter.
func (o others) Create(path string) (io.Writer, error) {
	if o.have[path] {
		delete(o.have, path)
		return io.Discard, nil
	}
	return o.Writer.Create(path)
}
