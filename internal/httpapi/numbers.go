package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// decode reads a document. Of a number that no float64 can be, package json does not say where it is where it reads into any
// value: the error names the member.
func decode(text []byte, v any) error {
	err := huma.DefaultJSONFormat.Unmarshal(text, v)
	if kind := (*json.UnmarshalTypeError)(nil); !errors.As(err, &kind) || kind.Field != "" {
		return err
	}
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	var document any
	if numbers.Decode(&document) != nil {
		return err
	}
	if member, number := unheld(document, ""); member != "" {
		return fmt.Errorf("%s of %q", number, member)
	}
	return err
}

// unheldNumber is such an error. What comes of huma is its text alone.
var unheldNumber = regexp.MustCompile(`^(-?[0-9][0-9.eE+-]*) of ("(?:[^"\\]|\\.)*")$`)

// unheld returns the first member that is a number beyond float64, if any.
func unheld(document any, path string) (member string, number json.Number) {
	switch v := document.(type) {
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return path, v
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if at, number := unheld(v[name], join(path, name)); at != "" {
				return at, number
			}
		}
	case []any:
		for i, of := range v {
			if at, number := unheld(of, fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at, number
			}
		}
	}
	return "", ""
}

// unheldField is the problem of a number that an error of a body names.
func unheldField(message string) (FieldError, bool) {
	m := unheldNumber.FindStringSubmatch(message)
	if m == nil {
		return FieldError{}, false
	}
	member, err := strconv.Unquote(m[2])
	if err != nil {
		return FieldError{}, false
	}
	number := m[1]
	if len(number) > 40 {
		number = number[:40] + "…"
	}
	return FieldError{Field: member, Code: "invalid", Rule: "must be a number that can be held: " + number + " is beyond all"}, true
}
