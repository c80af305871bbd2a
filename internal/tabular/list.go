package tabular

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
)

// elements makes JSON lines of a list of objects, an element on each line. A text that is no list stays as it is.
type elements struct {
	from   *bufio.Reader
	begun  bool
	list   bool
	depth  int
	quoted bool
	escape bool
	some   bool // the line has more than spaces
	ended  bool
	err    error // behind what is in out
	out    []byte
}

func newElements(text io.Reader) *elements { return &elements{from: bufio.NewReaderSize(text, 64<<10)} }

// Read implements io.Reader.
func (e *elements) Read(p []byte) (int, error) {
	if !e.begun {
		if err := e.begin(); err != nil {
			return 0, err
		}
	}
	if !e.list {
		return e.from.Read(p)
	}
	for len(e.out) < len(p) && !e.ended {
		b, err := e.from.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			e.ended, e.err = true, tableErrorf("the list of objects has no end")
		case err != nil:
			e.ended, e.err = true, err
		default:
			e.step(b)
		}
	}
	if len(e.out) == 0 {
		return 0, cmp.Or(e.err, io.EOF)
	}
	n := copy(p, e.out)
	e.out = e.out[:copy(e.out, e.out[n:])]
	return n, nil
}

// begin looks whether the text is a list.
func (e *elements) begin() error {
	for e.begun = true; ; {
		b, err := e.from.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case space(b):
			continue
		}
		if e.list = b == '['; e.list {
			return nil
		}
		return e.from.UnreadByte()
	}
}

func space(b byte) bool { return bytes.IndexByte([]byte(" \t\r\n"), b) >= 0 }

// step writes what becomes of a byte.
func (e *elements) step(b byte) {
	switch {
	case e.quoted:
		e.quoted = e.escape || b != '"'
		e.escape = !e.escape && b == '\\'
		if b == '\n' || b == '\r' {
			b = 1 // no text of JSON has either, and the line must not end here
		}
	case space(b):
		b = ' '
	case e.depth == 0 && (b == ',' || b == ']'):
		if e.ended = b == ']'; !e.some && !e.ended {
			e.out = append(e.out, ',') // there is no element, which is no JSON
		}
		e.out = append(e.out, '\n')
		e.some = false
		return
	case b == '"':
		e.quoted = true
	case b == '{' || b == '[':
		e.depth++
	case b == '}' || b == ']':
		e.depth = max(e.depth-1, 0)
	}
	e.some = e.some || b != ' '
	e.out = append(e.out, b)
}
