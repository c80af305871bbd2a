package tabular

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wlynxg/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Names of encodings that have rules of their own.
const (
	UTF8    = "utf-8"
	UTF16LE = "utf-16le"
	UTF16BE = "utf-16be"
	CP1252  = "windows-1252"
)

// Encoding returns the name of an encoding as this package has it, and whether it is known. Names
// are those of the WHATWG, and cp followed by a number stands for windows.
func Encoding(name string) (string, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	if number, short := strings.CutPrefix(name, "cp"); short {
		name = "windows-" + number
	}
	e, err := htmlindex.Get(name)
	if err != nil {
		return "", false
	}
	known, err := htmlindex.Name(e)
	return known, err == nil && known != "replacement" && known != "x-user-defined"
}

// Decoded returns a text in UTF-8 without its byte order mark. The encoding is one that Encoding
// knows. What cannot be decoded becomes U+FFFD, but for UTF-8, which is left as it is.
func Decoded(r io.Reader, name string) (io.Reader, error) {
	if name == UTF8 {
		return withoutMark(r), nil
	}
	var e encoding.Encoding
	switch name {
	case UTF16LE:
		e = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case UTF16BE:
		e = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	default:
		var err error
		if e, err = htmlindex.Get(name); err != nil {
			return nil, fmt.Errorf("decode a text: the encoding %q is unknown", name)
		}
	}
	return withoutMark(transform.NewReader(r, e.NewDecoder())), nil
}

const mark = "\ufeff"

// withoutMark takes a byte order mark off a text in UTF-8.
func withoutMark(r io.Reader) io.Reader {
	head := make([]byte, len(mark))
	n, err := io.ReadFull(r, head)
	head = bytes.TrimPrefix(head[:n], []byte(mark))
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return io.MultiReader(bytes.NewReader(head), failing{err})
	}
	return io.MultiReader(bytes.NewReader(head), r)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Sniffer finds out the encoding of a text that is written to it, in parts of any size. Its zero
// value is ready.
type Sniffer struct {
	head    []byte // the first bytes
	cut     []byte // of a character of UTF-8 that the next part goes on with
	invalid bool   // it is not UTF-8
	size    int64
	zeros   [2]int64 // at even and odd places
	high    []byte   // a sample of lines with bytes from 0x80
}

const sampleSize = 64 << 10

// Write implements io.Writer. It returns no error.
func (s *Sniffer) Write(part []byte) (int, error) {
	if room := sampleSize - len(s.head); room > 0 {
		s.head = append(s.head, part[:min(room, len(part))]...)
	}
	s.sample(part)
	for at := 0; ; {
		next := bytes.IndexByte(part[at:], 0)
		if next < 0 {
			break
		}
		s.zeros[(s.size+int64(at+next))%2]++
		at += next + 1
	}
	s.size += int64(len(part))
	if !s.invalid {
		s.validate(part)
	}
	return len(part), nil
}

func (s *Sniffer) validate(part []byte) {
	for len(s.cut) > 0 && len(part) > 0 {
		s.cut, part = append(s.cut, part[0]), part[1:]
		if utf8.FullRune(s.cut) {
			s.invalid = !utf8.Valid(s.cut)
			s.cut = nil
		}
	}
	tail := len(part)
	for i := 1; i < utf8.UTFMax && i <= len(part); i++ {
		if utf8.RuneStart(part[len(part)-i]) {
			if !utf8.FullRune(part[len(part)-i:]) {
				tail = len(part) - i
			}
			break
		}
	}
	s.invalid = s.invalid || !utf8.Valid(part[:tail])
	s.cut = append(s.cut, part[tail:]...)
}

// sample keeps lines that say most about an encoding with a byte for each character.
func (s *Sniffer) sample(part []byte) {
	for line := range bytes.Lines(part) {
		if len(s.high) >= sampleSize {
			return
		}
		if slices.ContainsFunc(line, func(b byte) bool { return b >= utf8.RuneSelf }) {
			s.high = append(s.high, line[:min(len(line), sampleSize)]...)
		}
	}
}

// Encoding is that of all that was written: a byte order mark decides; else UTF-16 if a quarter of
// all bytes are zeros that stand on one side of each pair, or all zeros do and line ends are such pairs,
// since no other text has these; else UTF-8 if all of it is valid; else Windows-1252, unless the letters are sure to be of another alphabet.
func (s *Sniffer) Encoding() string {
	even, odd := s.zeros[0], s.zeros[1]
	switch {
	case bytes.HasPrefix(s.head, []byte(mark)):
		return UTF8
	case bytes.HasPrefix(s.head, []byte{0xff, 0xfe}):
		return UTF16LE
	case bytes.HasPrefix(s.head, []byte{0xfe, 0xff}):
		return UTF16BE
	case odd*4 >= s.size && odd > 10*even:
		return UTF16LE
	case even*4 >= s.size && even > 10*odd:
		return UTF16BE
	case odd > 0 && even == 0 && s.lineEnds(0, 1):
		return UTF16LE
	case even > 0 && odd == 0 && s.lineEnds(1, -1):
		return UTF16BE
	case !s.invalid && len(s.cut) == 0:
		return UTF8
	}
	return s.eightBits()
}

// lineEnds tells whether line feeds are pairs of bytes, which begin at even places or end at odd ones and
// have the zero beside them, as UTF-16 of an alphabet beyond ASCII has them. Such a text may be valid UTF-8.
func (s *Sniffer) lineEnds(side, zero int) bool {
	pairs, all := 0, 0
	for i, b := range s.head {
		if b != '\n' {
			continue
		}
		all++
		if at := i + zero; i%2 == side && at < len(s.head) && s.head[at] == 0 {
			pairs++
		}
	}
	return pairs > 0 && pairs*10 >= all*9
}

// alphabets are encodings whose letters are not Latin, by the detector's names in lower case.
var alphabets = []string{
	"windows-1251", "koi8-r", "iso-8859-5", "ibm866", "x-mac-cyrillic", "windows-1253", "iso-8859-7", "windows-1255",
	"iso-8859-8", "windows-1256", "iso-8859-6", "shift_jis", "euc-jp", "euc-kr", "gb2312", "gb18030", "big5",
}

// eightBits is the encoding of a text that is neither UTF-8 nor UTF-16. Texts in Latin letters
// have few bytes from 0x80, and a detector that looks at them alone mistakes one encoding for another.
func (s *Sniffer) eightBits() string {
	letters, high := 0, 0
	for _, b := range s.high {
		switch {
		case b >= utf8.RuneSelf:
			high++
		case b|0x20 >= 'a' && b|0x20 <= 'z':
			letters++
		}
	}
	if high < letters { // in another alphabet, most letters are beyond ASCII
		return CP1252
	}
	found := chardet.Detect(s.high)
	if found.Confidence < 0.8 || !slices.Contains(alphabets, strings.ToLower(found.Encoding)) {
		return CP1252
	}
	name, known := Encoding(found.Encoding)
	if !known {
		return CP1252
	}
	return name
}

// Head returns the first bytes of what was written, up to 64 KiB.
func (s *Sniffer) Head() []byte { return s.head }
