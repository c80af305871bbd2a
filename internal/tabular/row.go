package tabular

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of what a table may have.
const (
	MaxColumns = 1000
	MaxCell    = 1 << 20 // bytes
	MaxRow     = 8 << 20 // bytes
	// MaxRaw is how much is kept of a row with a fault, in bytes.
	MaxRaw = 64 << 10
)

// Row is one row of data.
type Row struct {
	No    int64 // its place among the rows of data, those with faults included; from 1
	Line  int64 // on which it begins, from 1; in XLSX its row
	Cells []string
	// Object is a row of JSON lines, which has no cells: a JSON object on one line.
	Object json.RawMessage
	Image  *Image // of a zip of images; else nil
	Fault  *Fault // the rule that the row breaks; nil: none, and the row is whole
	Raw    []byte // the first bytes of a row with a fault, as they are in UTF-8 or before they were decoded
}

// Fault is a rule that a row breaks.
type Fault struct{ Code, Text string }

func faultf(code, format string, args ...any) *Fault {
	return &Fault{code, fmt.Sprintf(format, args...)}
}

// Reader reads the rows of a table.
type Reader interface {
	// Header returns the cells of the first line; nil for JSON lines.
	Header() []string
	// Next returns the next row. What it returns is valid until the next call. Its error is
	// io.EOF at the end; after any other error the table cannot be read on.
	Next() (Row, error)
	Close() error
}

// textFault returns what no text may have.
func textFault(text []byte, encoding string) *Fault {
	switch {
	case bytes.IndexByte(text, 0) >= 0:
		return faultf("nul", "the row contains a NUL character, which no text may have")
	case encoding == UTF8 && !utf8.Valid(text):
		return faultf("undecodable", "the row contains bytes that are not UTF-8")
	case encoding != UTF8 && bytes.Contains(text, []byte(string(utf8.RuneError))):
		return faultf("undecodable", "the row contains bytes that are not %s", encoding)
	}
	return nil
}

// ErrTable is the error of a table that cannot be read at all.
type ErrTable struct{ Text string }

func (e *ErrTable) Error() string { return e.Text }

func tableErrorf(format string, args ...any) error { return &ErrTable{fmt.Sprintf(format, args...)} }

// Keys returns the names by which the cells of a row are known: the header, with numbers behind
// names that are there already, and column_N for those that are empty.
func Keys(header []string) []string {
	keys, used := make([]string, len(header)), make(map[string]bool, len(header))
	for _, name := range header {
		used[name] = true
	}
	seen := make(map[string]bool, len(header))
	for i, name := range header {
		if strings.TrimSpace(name) == "" {
			name = fmt.Sprintf("column_%d", i+1)
		}
		key := name
		for n := 2; seen[key] || key != header[i] && used[key]; n++ {
			key = fmt.Sprintf("%s_%d", name, n)
		}
		seen[key] = true
		keys[i] = key
	}
	return keys
}
