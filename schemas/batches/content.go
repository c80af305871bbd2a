package batches

import (
	"bytes"
	"encoding/json"
	"fmt"
)

var byteOrderMark = []byte("\ufeff")

// ReadItems returns the items of what an object holds, with their outcomes: those of a JSON
// array, the lines of JSON lines, or the content itself where it is one item. Content that is
// neither is one item, which is an error, and so is content of nothing but space. It returns
// an error for more than MaxItems. The items are parts of the content.
func ReadItems(content []byte) ([]Item, error) {
	texts, valid, err := split(content)
	if err != nil {
		return nil, err
	}
	items := make([]Item, len(texts))
	for i, text := range texts {
		items[i] = Item{readItem(text, valid || json.Valid(text)), text}
	}
	return items, nil
}

// split returns the texts of the items, and whether all of them are known to be valid JSON.
func split(content []byte) (items [][]byte, valid bool, err error) {
	content = bytes.TrimSpace(bytes.TrimPrefix(content, byteOrderMark))
	array := bytes.HasPrefix(content, []byte("["))
	switch valid = json.Valid(content); {
	case array && valid:
		items, err = elements(content)
		return items, true, err
	case !array && !valid:
		if items, err := lines(content); err != nil || items != nil {
			return items, false, err
		}
	}
	return [][]byte{content}, valid, nil
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

// members calls do with each member of a valid JSON object, in their order, and returns how
// deep objects and lists are in each other.
func members(object []byte, do func(name string, value []byte)) (deepest int) {
	start := 1
	walk(object, func(at, depth int) bool {
		deepest = max(deepest, depth)
		if depth == 1 && object[at] == ',' || depth == 0 {
			if text := bytes.TrimSpace(object[start:at]); len(text) > 0 { // an empty object has none
				end := stringEnd(text, 0)
				_, value, _ := bytes.Cut(text[end:], []byte(":"))
				do(stringOf(text[:end+1]), bytes.TrimSpace(value))
			}
			start = at + 1
		}
		return true
	})
	return deepest
}

// stringOf is what a valid JSON string says.
func stringOf(quoted []byte) (text string) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	_ = json.Unmarshal(quoted, &text) // it is valid
	return text
}

// walk calls do with each bracket, brace and comma of valid JSON that is not in a string,
// and with how deep it is after it, until do returns false.
func walk(text []byte, do func(at, depth int) bool) {
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = stringEnd(text, at)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
		default:
			continue
		}
		if !do(at, depth) {
			return
		}
	}
}

// stringEnd returns where the string of valid JSON ends that begins at a place. It looks at
// no byte more than twice, however many are escaped.
func stringEnd(text []byte, at int) int {
	from := at + 1
	quote := from + bytes.IndexByte(text[from:], '"')
	for {
		escape := bytes.IndexByte(text[from:quote], '\\')
		if escape < 0 {
			return quote
		}
		if from += escape + 2; from > quote {
			quote = from + bytes.IndexByte(text[from:], '"')
		}
	}
}
