package tabular

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// lineReader reads JSON lines: an object on each. Lines with nothing in them are left out.
type lineReader struct {
	from     *bufio.Reader
	encoding string
	no, line int64
	text     []byte
	compact  bytes.Buffer
}

func newLineReader(text io.Reader, f Format) *lineReader {
	return &lineReader{from: bufio.NewReaderSize(text, 64<<10), encoding: f.Encoding}
}

func (r *lineReader) Header() []string { return nil }

func (r *lineReader) Close() error { return nil }

// Next implements Reader.
func (r *lineReader) Next() (Row, error) {
	for {
		long, err := r.readLine()
		if err != nil {
			return Row{}, err
		}
		r.line++
		text := bytes.TrimSpace(r.text)
		if len(text) == 0 && !long {
			continue
		}
		r.no++
		row := Row{No: r.no, Line: r.line}
		if long {
			row.Fault = faultf("row_size", "the row has more than %d bytes", MaxRow)
		} else {
			row.Fault = r.check(text)
		}
		if row.Fault != nil {
			row.Raw = r.text[:min(len(r.text), MaxRaw)]
		} else {
			row.Object = r.compact.Bytes()
		}
		return row, nil
	}
}

// readLine reads a line into text. A long one is cut.
func (r *lineReader) readLine() (long bool, err error) {
	r.text = r.text[:0]
	for {
		part, err := r.from.ReadSlice('\n')
		if room := MaxRow - len(r.text); len(part) > room {
			long, part = true, part[:room]
		}
		r.text = append(r.text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(r.text) > 0:
			return long, nil
		default:
			return long, err
		}
	}
}

// check returns the rule that an object breaks, and else leaves the object in compact.
func (r *lineReader) check(text []byte) *Fault {
	if fault := textFault(text, r.encoding); fault != nil {
		return fault
	}
	r.compact.Reset()
	if err := json.Compact(&r.compact, text); err != nil {
		return faultf("not_json", "the row is not JSON: %v", err)
	}
	if text[0] != '{' {
		return faultf("not_an_object", "the row is not a JSON object")
	}
	if fault := escapesFault(text); fault != nil {
		return fault
	}
	return membersFault(r.compact.Bytes())
}

// escapesFault finds escapes that JSON may have, and texts of a database may not.
func escapesFault(text []byte) *Fault {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			return nil
		}
		if text[at+1] != 'u' {
			text = text[at+2:]
			continue
		}
		unit := string(bytes.ToLower(text[at+2 : at+6]))
		text = text[at+6:]
		switch {
		case unit == "0000":
			return faultf("nul", "the row contains a NUL character, which no text may have")
		case unit >= "dc00" && unit <= "dfff":
			return faultf("undecodable", `the row has the escape \u%s without the half of a character before it`, unit)
		case unit >= "d800" && unit <= "dbff":
			next := ""
			if len(text) >= 6 && text[0] == '\\' && text[1] == 'u' {
				next = string(bytes.ToLower(text[2:6]))
			}
			if next < "dc00" || next > "dfff" {
				return faultf("undecodable", `the row has the escape \u%s without the half of a character behind it`, unit)
			}
			text = text[6:]
		}
	}
}

// maxDepth is how deep objects and lists of a row may be in each other.
const maxDepth = 100

// membersFault looks at the members of an object that is valid JSON.
func membersFault(text []byte) *Fault {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > maxDepth {
				return faultf("depth", "the row has more than %d objects and lists within each other", maxDepth)
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	members, seen := json.NewDecoder(bytes.NewReader(text)), map[string]bool{}
	_, err := members.Token() // the brace
	for err == nil && members.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = members.Token(); err == nil {
			err = members.Decode(&value)
		}
		key := fmt.Sprint(name)
		switch {
		case seen[key]:
			return faultf("member_twice", "the row has the member %.100q twice", key)
		case len(value) > MaxCell:
			return faultf("cell_size", "the member %.100q of the row has more than %d bytes", key, MaxCell)
		case len(seen) == MaxColumns:
			return faultf("cells_count", "the row has more than %d members", MaxColumns)
		}
		seen[key] = true
	}
	if err != nil {
		return faultf("not_json", "the row is not JSON: %v", err)
	}
	return nil
}
