package tabular

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// checkParts looks at the sizes that a zip declares, and then at what its XML really unpacks to, which is what the library reads
// into memory. It returns the last row of each sheet; nil: that is not known.
func checkParts(file io.ReaderAt, size int64) (lasts []int64, err error) {
	parts, _, err := directory(file, "XLSX", size, maxPart, maxParts)
	if err != nil {
		return nil, err
	}
	if err := checkSizes(parts.File); err != nil {
		return nil, err
	}
	known, tags := true, 0
	var texts, tagsOfTexts, upto int64
	for _, p := range parts.File {
		name := partName(p)
		s, err := scanPart(p)
		if err != nil {
			return nil, err
		}
		switch {
		case name == sharedTexts:
			texts, tagsOfTexts = texts+s.texts, tagsOfTexts+int64(s.tags)
		case isSheet(name):
			known = known && !s.odd
			lasts = append(lasts, s.row)
			if !s.free {
				upto = max(upto, s.upto)
			}
		default:
			tags += s.tags
		}
		switch {
		case tags > maxTags:
			return nil, tableErrorf("the XLSX has more than %d tags beside its sheets and their texts", maxTags)
		case tagsOfTexts > maxStrings:
			return nil, tableErrorf("the texts of the XLSX have more than %d tags", maxStrings)
		}
	}
	// The library takes a text that is not there for an empty one, or for its number.
	if counted := texts > 0 || tagsOfTexts < leastTags; counted && upto > texts {
		return nil, tableErrorf("the XLSX is damaged: a cell has the text number %d, and there are %d", upto, texts)
	}
	if !known {
		return nil, nil
	}
	return lasts, nil
}

// leastTags is how many tags a part with a text has at least.
const leastTags = 5

const sharedTexts = "xl/sharedstrings.xml"

func partName(p *zip.File) string { return strings.ToLower(strings.ReplaceAll(p.Name, "\\", "/")) }

func isSheet(name string) bool { return strings.HasPrefix(name, "xl/worksheets/sheet") }

func isXML(name string) bool {
	return slices.ContainsFunc([]string{".xml", ".rels", ".vml"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// checkSizes holds what parts declare to the bounds. A part that is larger than it declares ends in an error of package zip.
func checkSizes(parts []*zip.File) error {
	var all, held uint64
	for _, p := range parts {
		if p.UncompressedSize64 > maxUnpacked {
			return tableErrorf("the XLSX unpacks to more than %d bytes", int64(maxUnpacked))
		}
		all += p.UncompressedSize64
		if name := partName(p); !isSheet(name) && name != sharedTexts {
			held += p.UncompressedSize64
		}
	}
	switch {
	case all > maxUnpacked:
		return tableErrorf("the XLSX unpacks to %d bytes, and at most %d are read", all, int64(maxUnpacked))
	case held > maxHeld:
		return tableErrorf("the XLSX has %d bytes beside its sheets and their texts, and at most %d are read", held, maxHeld)
	}
	return nil
}

// scanned is what a part of XML has.
type scanned struct {
	tags  int
	row   int64 // the last one of a sheet
	odd   bool  // which is not known
	tail  bytes.Buffer
	texts int64 // how many texts sheets share
	upto  int64 // the number of the last one that a cell names, from 1
	cell  bool  // the last cell names one
	free  bool  // the tail may be other than it looks like: there are comments, texts that may have tags, or another encoding
}

// maxTail is how many bytes of a sheet from its last row on are looked at: no row may have more.
const maxTail = 2 * MaxRow

// scanPart reads a part to its end, and refuses one that is damaged, and XML that has a text that the library would hold or
// declares entities.
func scanPart(p *zip.File) (s scanned, err error) {
	from, err := p.Open()
	if err != nil {
		return s, tableErrorf("%.100q of the XLSX cannot be read: %v", p.Name, err)
	}
	defer from.Close()
	inXML := isXML(partName(p))
	text, long := bufio.NewReaderSize(from, 64<<10), 0
	for {
		part, err := text.ReadSlice('<')
		if long += len(part); long > maxText && inXML {
			return s, tableErrorf("%.100q of the XLSX has a text of more than %d bytes", p.Name, maxText)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			s.keep(part)
			continue
		case errors.Is(err, io.EOF):
			s.keep(part)
			if isSheet(partName(p)) && !s.whole() {
				return s, tableErrorf("%.100q of the XLSX is damaged in its last row", p.Name)
			}
			return s, nil
		case err != nil:
			return s, tableErrorf("%.100q of the XLSX is damaged: %v", p.Name, err)
		}
		long = 0
		s.keep(part)
		if s.tags++; s.tags > maxStrings && !isSheet(partName(p)) {
			return s, nil // it is refused
		}
		head, _ := text.Peek(64) // the next read returns the error
		if inXML && bytes.HasPrefix(head, []byte("!DOCTYPE")) {
			return s, tableErrorf("%.100q of the XLSX declares a type of document, which none may", p.Name)
		}
		s.see(head)
	}
}

// see looks at how a tag begins.
func (s *scanned) see(head []byte) {
	s.seeText(head)
	if len(head) > 0 && head[0] == '!' {
		s.odd, s.free = true, true
	}
	if bytes.HasPrefix(head, []byte("?xml")) {
		lower := bytes.ToLower(head)
		s.free = bytes.Contains(lower, []byte("encoding")) && !bytes.Contains(lower, []byte("utf-8"))
	}
	name, rest, _ := bytes.Cut(head, []byte(":"))
	if !bytes.HasPrefix(rest, []byte("row")) || bytes.ContainsAny(name, " />\"") {
		rest = head
	}
	rest, is := bytes.CutPrefix(rest, []byte("row"))
	if !is || len(rest) == 0 || !bytes.ContainsAny(rest[:1], " \t\r\n/>") {
		return
	}
	next := s.row + 1
	rest, _, _ = bytes.Cut(rest, []byte(">"))
	if number, said := bytes.CutPrefix(bytes.TrimSpace(rest), []byte(`r="`)); said {
		number, _, _ = bytes.Cut(number, []byte(`"`))
		at, err := strconv.ParseInt(string(number), 10, 64)
		if s.odd = s.odd || err != nil || at < next; !s.odd {
			next = at
		}
	} else if len(bytes.TrimSpace(bytes.TrimSuffix(rest, []byte("/")))) > 0 {
		s.odd = true // other attributes come first
	}
	s.row = next
	s.tail.Reset()
	s.tail.WriteByte('<')
}

// seeText counts the texts that sheets share, and notes the last one that a cell names. It does not know tags with a
// prefix, and attributes that follow a line break.
func (s *scanned) seeText(head []byte) {
	end := bytes.IndexAny(head, " \t\r\n/>") // of the name; 0: it is the end of a tag
	switch {
	case end == 2 && head[0] == 's' && head[1] == 'i':
		s.texts++
	case end == 1 && head[0] == 'c':
		tag, _, _ := bytes.Cut(head, []byte(">"))
		s.cell = bytes.Contains(tag, []byte(` t="s"`))
	case s.cell && bytes.HasPrefix(head, []byte("v>")):
		number, _, _ := bytes.Cut(head[2:], []byte("<"))
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(number)), 10, 64); err == nil {
			s.upto = max(s.upto, n+1)
		}
	}
}

// keep keeps what comes from the last row on.
func (s *scanned) keep(part []byte) {
	if s.row > 0 && s.tail.Len() <= maxTail {
		s.tail.Write(part)
	}
}

// whole tells whether the XML from the last row of a sheet on can be read to the end of its rows.
func (s *scanned) whole() bool {
	if s.row == 0 || s.free || s.tail.Len() > maxTail {
		return true // it is not known
	}
	for tokens := xml.NewDecoder(&s.tail); ; {
		token, err := tokens.RawToken()
		if err != nil {
			return false
		}
		if end, is := token.(xml.EndElement); is && end.Name.Local == "sheetData" {
			return true
		}
	}
}
