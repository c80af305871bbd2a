package event

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep values may nest, so that hostile text cannot
// exhaust the stack.
const maxDepth = 512

// scanner walks JSON text (RFC 8259) once. at is the next byte to read. A
// method that returns false has met text that is not JSON.
type scanner struct {
	data []byte
	at   int
	buf  []byte // unescaped strings; earlier ones stay valid when it grows
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

// next passes over white space and, if it comes next, over c.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// end tells whether nothing but white space is left.
func (s *scanner) end() bool {
	s.space()
	return s.at == len(s.data)
}

// text reads a string and unescapes it; without escapes it is a slice of the
// data.
func (s *scanner) text() ([]byte, bool) {
	if s.peek() != '"' {
		return nil, false
	}
	s.at++
	start := s.at
	for i := start; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.at = i + 1
			return s.data[start:i:i], true
		case c == '\\':
			return s.escapedText(start, i)
		case c < 0x20:
			return nil, false
		}
	}
	return nil, false
}

// escapedText goes on where text met the first backslash.
func (s *scanner) escapedText(start, i int) ([]byte, bool) {
	from := len(s.buf)
	s.buf = append(s.buf, s.data[start:i]...)
	for i < len(s.data) {
		c := s.data[i]
		switch {
		case c == '"':
			s.at = i + 1
			return s.buf[from:len(s.buf):len(s.buf)], true
		case c < 0x20:
			return nil, false
		case c != '\\':
			s.buf = append(s.buf, c)
			i++
		default:
			n := s.escape(i)
			if n == 0 {
				return nil, false
			}
			i += n
		}
	}
	return nil, false
}

// escape unescapes what begins at i and returns its length, 0 when it is
// none. Half a surrogate pair becomes U+FFFD, as in encoding/json.
func (s *scanner) escape(i int) int {
	if i+1 >= len(s.data) {
		return 0
	}
	c := s.data[i+1]
	if c == 'u' {
		return s.unicodeEscape(i)
	}
	k := bytes.IndexByte([]byte(`"\/bfnrt`), c)
	if k < 0 {
		return 0
	}
	s.buf = append(s.buf, "\"\\/\b\f\n\r\t"[k])
	return 2
}

func (s *scanner) unicodeEscape(i int) int {
	r, ok := hex4(s.data[i:])
	if !ok {
		return 0
	}
	n := 6
	if utf16.IsSurrogate(r) {
		low, ok := hex4(s.data[i+6:])
		if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
			r, n = pair, 12
		} else {
			r = utf8.RuneError
		}
	}
	s.buf = utf8.AppendRune(s.buf, r)
	return n
}

// hex4 reads the \uXXXX at the start of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// skip passes over one value.
func (s *scanner) skip(depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch c := s.peek(); {
	case c == '"':
		return s.skipText()
	case c == '{':
		return s.skipObject(depth)
	case c == '[':
		return s.skipArray(depth)
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	default:
		return s.skipNumber()
	}
}

func (s *scanner) skipText() bool {
	kept := len(s.buf)
	_, ok := s.text()
	s.buf = s.buf[:kept]
	return ok
}

func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.data[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

func (s *scanner) skipObject(depth int) bool {
	s.at++
	if s.next('}') {
		return true
	}
	for {
		s.space()
		if !s.skipText() || !s.next(':') {
			return false
		}
		s.space()
		if !s.skip(depth + 1) {
			return false
		}
		if !s.next(',') {
			return s.next('}')
		}
	}
}

func (s *scanner) skipArray(depth int) bool {
	s.at++
	if s.next(']') {
		return true
	}
	for {
		s.space()
		if !s.skip(depth + 1) {
			return false
		}
		if !s.next(',') {
			return s.next(']')
		}
	}
}

func (s *scanner) skipNumber() bool {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if !s.skipDigits() {
		return false
	}
	if s.peek() == '.' {
		s.at++
		if !s.skipDigits() {
			return false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		return s.skipDigits()
	}
	return true
}

func (s *scanner) skipDigits() bool {
	start := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}
