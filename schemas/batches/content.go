package batches

import (
	"bytes"
	"encoding/json"
	"fmt"
)

var byteOrderMark = []byte("\ufeff")

// Split returns the items of what an object holds: those of a JSON array, the lines of
// JSON lines, or the content itself where it is one item. Content that is neither is one
// item, which ReadItem finds to be none, and so is content of nothing but space. It
// returns an error for more than MaxItems. The items are parts of the content.
func Split(content []byte) ([][]byte, error) {
	content = bytes.TrimSpace(bytes.TrimPrefix(content, byteOrderMark))
	switch array, valid := bytes.HasPrefix(content, []byte("[")), json.Valid(content); {
	case array && valid:
		return elements(content)
	case !array && !valid:
		if items, err := lines(content); err != nil || items != nil {
			return items, err
		}
	}
	return [][]byte{content}, nil
}

func tooMany() error { return fmt.Errorf("a batch must have at most %d items", MaxItems) }

// lines returns the lines that are not blank; nil: none of them is a JSON object, so that
// the content is not in lines.
func lines(content []byte) (items [][]byte, err error) {
	found := false
	for line := range bytes.Lines(content) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(items) == MaxItems {
			return nil, tooMany()
		}
		items = append(items, line)
		found = found || line[0] == '{' && json.Valid(line)
	}
	if !found {
		return nil, nil
	}
	return items, nil
}

// elements returns the elements of a valid JSON array.
func elements(array []byte) (items [][]byte, err error) {
	start := 1
	add := func(end int) bool {
		if element := bytes.TrimSpace(array[start:end]); len(element) > 0 { // an empty array has none
			items = append(items, element)
		}
		start = end + 1
		return len(items) <= MaxItems
	}
	full := false
	walk(array, func(at, depth int) bool {
		ends := depth == 1 && array[at] == ',' || depth == 0
		full = ends && !add(at)
		return !full
	})
	if full {
		return nil, tooMany()
	}
	return items, nil
}

// depth is how deep the objects and lists of valid JSON are in each other.
func depth(text []byte) (deepest int) {
	walk(text, func(_, depth int) bool {
		deepest = max(deepest, depth)
		return true
	})
	return deepest
}

// walk calls do with each bracket, brace and comma of valid JSON that is not in a string,
// and with how deep it is after it, until do returns false.
func walk(text []byte, do func(at, depth int) bool) {
	depth, quoted := 0, false
	for at := 0; at < len(text); at++ {
		switch c := text[at]; {
		case quoted && c == '\\':
			at++
			continue
		case c == '"':
			quoted = !quoted
			continue
		case quoted:
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c != ',':
			continue
		}
		if !do(at, depth) {
			return
		}
	}
}
