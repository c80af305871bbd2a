package tabular

import (
	"bytes"
	"errors"
	"io"
)

// csvReader reads CSV as RFC 4180 has it, with any delimiter of one byte. Beyond the RFC, lines may
// end with LF, a quote within a cell that is not quoted stands for itself, and lines with nothing in
// them are left out where rows have more than one cell.
//
// The reader of the standard library holds a whole cell in memory, however long, so that a quote that
// nobody closes is as large as the file. It changes line breaks in cells, and does not tell what a row
// that it refuses consists of.
type csvReader struct {
	from      io.Reader
	encoding  string // what the text was decoded from
	delimiter byte
	newline   byte // '\n', or '\r' in files of old Macs
	header    []string
	no        int64

	buf    []byte // what was read and is not consumed begins at pos
	pos    int
	rawPos int // what is of the row and not in raw begins here
	line   int64

	text   []byte // of the row, all cells
	ends   []int  // of the cells, in text
	raw    []byte
	quoted bool // a cell of the row is
	fault  *Fault
	cells  []string
}

func newCSVReader(text io.Reader, f Format) (*csvReader, error) {
	r := &csvReader{
		from: text, encoding: f.Encoding, delimiter: f.Delimiter, newline: '\n', buf: make([]byte, 0, 64<<10), line: 1,
	}
	if f.LoneCR {
		r.newline = '\r'
	}
	return r, r.readHeader()
}

// readHeader reads the first line with something in it.
func (r *csvReader) readHeader() error {
	_, err := r.record()
	for err == nil && r.blank() {
		_, err = r.record()
	}
	if errors.Is(err, io.EOF) {
		return tableErrorf("the file has no line with the names of its columns")
	}
	if err != nil {
		return err
	}
	r.checkText()
	switch {
	case r.fault != nil:
		return tableErrorf("in the line with the names of the columns, %s", r.fault.Text)
	case len(r.ends) > MaxColumns:
		return tableErrorf("the file has %d columns, and at most %d are read", len(r.ends), MaxColumns)
	}
	r.header = append([]string(nil), r.split()...)
	return nil
}

func (r *csvReader) Header() []string { return r.header }

func (r *csvReader) Close() error { return nil }

// Next implements Reader.
func (r *csvReader) Next() (Row, error) {
	line, err := r.record()
	for err == nil && len(r.header) > 1 && r.blank() {
		line, err = r.record()
	}
	if err != nil {
		return Row{}, err
	}
	r.no++
	if r.checkText(); r.fault == nil && len(r.ends) != len(r.header) {
		r.fault = faultf("cells_count", "the row has %d cells, and the header has %d", len(r.ends), len(r.header))
	}
	if r.fault != nil {
		return Row{No: r.no, Line: line, Fault: r.fault, Raw: r.raw}, nil
	}
	return Row{No: r.no, Line: line, Cells: r.split()}, nil
}

// blank tells of a line with nothing in it.
func (r *csvReader) blank() bool {
	return !r.quoted && r.fault == nil && len(r.ends) == 1 && len(r.text) == 0
}

// checkText looks at each cell for itself: two that are broken may look like one that is not.
func (r *csvReader) checkText() {
	from := 0
	for _, to := range r.ends {
		if r.fault != nil {
			return
		}
		r.fault = textFault(r.text[from:to], r.encoding)
		from = to
	}
}

// split returns the cells of the row.
func (r *csvReader) split() []string {
	all, from := string(r.text), 0
	r.cells = r.cells[:0]
	for _, to := range r.ends {
		r.cells = append(r.cells, all[from:to])
		from = to
	}
	return r.cells
}

// Places within a row.
type place int

const (
	cellBegin place = iota
	inCell
	inQuotes
	behindQuotes
)

// record reads one row into text and ends, and returns the line on which it begins.
func (r *csvReader) record() (line int64, err error) {
	r.text, r.ends, r.raw, r.quoted, r.fault, r.rawPos = r.text[:0], r.ends[:0], r.raw[:0], false, nil, r.pos
	line = r.line
	at, opened := cellBegin, line
	for {
		if r.pos == len(r.buf) {
			if err := r.fill(); errors.Is(err, io.EOF) {
				return line, r.atEOF(at, opened)
			} else if err != nil {
				return line, err
			}
		}
		switch at {
		case cellBegin:
			if at = inCell; r.buf[r.pos] == '"' {
				at, opened, r.quoted = inQuotes, r.line, true
				r.pos++
			}
		case inQuotes:
			at = r.quotedText()
		case behindQuotes:
			switch b := r.buf[r.pos]; {
			case b == '"':
				r.add(r.buf[r.pos : r.pos+1])
				r.pos++
				at = inQuotes
				continue
			case b != r.delimiter && b != r.newline && b != '\r':
				r.refuse("quote_misplaced", "the row has text between the quote that closes a cell and the delimiter")
			}
			at = inCell
		case inCell:
			end, whole, err := r.cellText()
			if err != nil {
				return line, err
			}
			if whole {
				r.keepRaw()
				return line, nil
			}
			if end {
				at = cellBegin
			}
		}
	}
}

// atEOF ends the last row of the file, or returns io.EOF where there is none.
func (r *csvReader) atEOF(at place, opened int64) error {
	if at == cellBegin && len(r.ends) == 0 {
		return io.EOF
	}
	if at == inQuotes {
		r.refuse("quote_unclosed", "the quote that opens a cell on line %d is not closed", opened)
	}
	r.endCell()
	r.keepRaw()
	return nil
}

// quotedText takes what is there up to a quote.
func (r *csvReader) quotedText() place {
	rest, next := r.buf[r.pos:], inQuotes
	if i := bytes.IndexByte(rest, '"'); i >= 0 {
		rest, next = rest[:i], behindQuotes
		r.pos++
	}
	r.line += int64(bytes.Count(rest, []byte{r.newline}))
	r.add(rest)
	r.pos += len(rest)
	return next
}

// cellText takes what is there up to the end of a cell, and tells whether the cell has ended, and
// whether the row has.
func (r *csvReader) cellText() (cell, row bool, err error) {
	rest := r.buf[r.pos:]
	i := 0
	for i < len(rest) && rest[i] != r.delimiter && rest[i] != r.newline && rest[i] != '\r' {
		i++
	}
	r.add(rest[:i])
	if r.pos += i; r.pos == len(r.buf) {
		return false, false, nil
	}
	switch b := r.buf[r.pos]; {
	case b == r.delimiter:
		r.pos++
		r.endCell()
		return true, false, nil
	case b == '\r' && r.newline == '\n':
		if r.pos+1 == len(r.buf) {
			if err := r.fill(); err != nil && !errors.Is(err, io.EOF) {
				return false, false, err
			}
		}
		if r.pos+1 == len(r.buf) || r.buf[r.pos+1] != '\n' {
			r.add(r.buf[r.pos : r.pos+1])
			r.pos++
			return false, false, nil
		}
		r.pos++
	}
	r.pos++
	r.line++
	r.endCell()
	return true, true, nil
}

// add adds to the text of a cell, unless the row is refused.
func (r *csvReader) add(text []byte) {
	begin := 0
	if n := len(r.ends); n > 0 {
		begin = r.ends[n-1]
	}
	switch {
	case r.fault != nil:
		return
	case len(r.text)+len(text)-begin > MaxCell:
		r.refuse("cell_size", "the cell %d of the row has more than %d bytes", len(r.ends)+1, MaxCell)
	case len(r.text)+len(text) > MaxRow:
		r.refuse("row_size", "the row has more than %d bytes", MaxRow)
	default:
		r.text = append(r.text, text...)
	}
}

func (r *csvReader) endCell() {
	if len(r.ends) <= 2*MaxColumns { // a row with more is refused in any case
		r.ends = append(r.ends, len(r.text))
	} else {
		r.refuse("cells_count", "the row has more than %d cells", 2*MaxColumns)
	}
}

// refuse notes the first fault of a row.
func (r *csvReader) refuse(code, format string, args ...any) {
	if r.fault == nil {
		r.fault = faultf(code, format, args...)
	}
}

// keepRaw keeps what was consumed of the row.
func (r *csvReader) keepRaw() {
	if room := MaxRaw - len(r.raw); room > 0 {
		part := r.buf[r.rawPos:r.pos]
		r.raw = append(r.raw, part[:min(room, len(part))]...)
	}
	r.rawPos = r.pos
}

// fill reads more behind what is not consumed.
func (r *csvReader) fill() error {
	r.keepRaw()
	r.buf = append(r.buf[:0], r.buf[r.pos:]...)
	r.pos, r.rawPos = 0, 0
	for empty := 0; ; empty++ {
		n, err := r.from.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		switch {
		case n > 0:
			return nil
		case err != nil:
			return err
		case empty == 100:
			return io.ErrNoProgress
		}
	}
}
