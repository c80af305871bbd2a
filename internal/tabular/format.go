package tabular

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Kinds of files.
const (
	CSV   = "csv"
	Lines = "ndjson"
	XLSX  = "xlsx"
)

// Kinds lists them.
var Kinds = []string{CSV, Lines, XLSX, Zip}

// Format is how a file is read.
type Format struct {
	Kind      string
	Encoding  string // as Encoding has it; empty for XLSX, and for a zip whose metadata says it by itself
	Delimiter byte   // of CSV; 0 for others
	LoneCR    bool   // lines of CSV end with a carriage return alone
}

// Delimiters are those that are looked for.
const Delimiters = ",;\t|"

// Sniff returns the format of the file that was written to the sniffer. Kind, encoding and delimiter
// are as they are given, where they are. Without a kind, it refuses a file that is no table by its first bytes with an ErrTable.
func (s *Sniffer) Sniff(name, kind, encoding string, delimiter byte) (Format, error) {
	f := Format{Kind: kind, Encoding: encoding, Delimiter: delimiter}
	if f.Kind == "" {
		f.Kind = s.kind(name)
		if err := s.misnamed(name, f.Kind); err != nil {
			return f, err
		}
	}
	switch f.Kind {
	case XLSX:
		return Format{Kind: XLSX}, nil
	case Zip:
		return f, nil
	}
	if f.Encoding == "" {
		f.Encoding = s.Encoding()
	}
	if f.Kind == Lines {
		f.Delimiter = 0
	}
	return f.Complete(s.head)
}

// Kind is what a file is by its first bytes, and else by its name.
func (s *Sniffer) kind(name string) string {
	switch ext := strings.ToLower(filepath.Ext(name)); {
	case bytes.HasPrefix(s.head, []byte("PK\x05\x06")): // a zip without files
		return Zip
	case bytes.HasPrefix(s.head, []byte("PK\x03\x04")):
		if ext == ".zip" || ext != ".xlsx" && !s.isBook() {
			return Zip
		}
		return XLSX
	case ext == ".ndjson" || ext == ".jsonl":
		return Lines
	}
	return CSV
}

// compound is how files of Excel begin that are older than XLSX, or have a password.
const compound = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

// misnamed refuses what would be read as rows of text, and is a book or is named so.
func (s *Sniffer) misnamed(name, kind string) error {
	switch {
	case kind == XLSX || kind == Zip:
		return nil
	case bytes.HasPrefix(s.head, []byte(compound)):
		return tableErrorf("must not be an old file of Excel (.xls), or one with a password: save it as .xlsx, without a password")
	case strings.EqualFold(filepath.Ext(name), ".xlsx"):
		return tableErrorf("must be XLSX, as its name says: its first bytes are those of another file. Say the format csv where it is text")
	}
	return nil
}

// isBook tells whether the first file of a zip is one that an XLSX begins with.
func (s *Sniffer) isBook() bool {
	const header = 30 // bytes before the name
	if len(s.head) < header {
		return false
	}
	for _, first := range []string{"[Content_Types].xml", "_rels/", "docProps/", "xl/"} {
		if bytes.HasPrefix(s.head[header:], []byte(first)) {
			return true
		}
	}
	return false
}

// Complete finds out by the first bytes of a CSV how its lines end, and its delimiter if it has none. It
// returns other formats as they are.
func (f Format) Complete(head []byte) (Format, error) {
	if f.Kind != CSV {
		return f, nil
	}
	text, err := Decoded(bytes.NewReader(head), f.Encoding)
	if err != nil {
		return f, err
	}
	sample, err := io.ReadAll(text)
	if err != nil {
		return f, fmt.Errorf("decode the first bytes: %w", err)
	}
	f.LoneCR = bytes.IndexByte(sample, '\n') < 0 && bytes.IndexByte(sample[:max(len(sample)-1, 0)], '\r') >= 0
	if f.Delimiter == 0 {
		f.Delimiter = f.delimiterOf(sample)
	}
	return f, nil
}

// delimiterOf returns the delimiter with which most of the first rows have as many cells as the
// header, which has more than one; among those alike, the one that gives most cells.
func (f Format) delimiterOf(sample []byte) byte {
	best, most := byte(','), 0
	for _, d := range []byte(Delimiters) {
		f.Delimiter = d
		r, err := newCSVReader(bytes.NewReader(sample), f)
		if err != nil || len(r.header) < 2 {
			continue
		}
		fit, rows := 1, 1
		for ; rows < 100; rows++ {
			row, err := r.Next()
			if err != nil {
				break
			}
			if row.Fault == nil {
				fit++
			}
		}
		if score := fit*1000/rows*(MaxColumns+1) + len(r.header); score > most {
			best, most = d, score
		}
	}
	return best
}

// Open reads a file with a format, but for a zip of images, which OpenZip reads. XLSX, of which one end refers to the other, it first copies to a
// file in the folder temp, and removes that with Close.
func Open(from io.Reader, f Format, temp string) (Reader, error) {
	if f.Kind == XLSX {
		return openXLSX(from, temp)
	}
	text, err := Decoded(from, f.Encoding)
	if err != nil {
		return nil, err
	}
	if f.Kind == Lines {
		return newLineReader(text, f), nil
	}
	r, err := newCSVReader(text, f)
	if err != nil {
		return nil, err // no *csvReader in an interface
	}
	return r, nil
}

// spool copies a file into the folder temp.
func spool(from io.Reader, temp string) (*os.File, error) {
	file, err := os.CreateTemp(temp, "upload-*.xlsx")
	if err != nil {
		return nil, fmt.Errorf("copy an XLSX: %w", err)
	}
	if _, err = io.Copy(file, from); err != nil {
		file.Close()
		os.Remove(file.Name())
		return nil, fmt.Errorf("copy an XLSX: %w", err)
	}
	return file, nil
}
