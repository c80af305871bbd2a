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

// decode reads a document. Where package json reads a value of any type, its error for a number that is out of the range of
// float64 does not say where the number is. This one names the member.
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
	if member, number := outOfRange(document, ""); member != "" {
		return fmt.Errorf("%s of %q", number, member)
	}
	return err
}

// rangeError matches such an error: huma passes on its text alone.
var rangeError = regexp.MustCompile(`^(-?[0-9][0-9.eE+-]*) of ("(?:[^"\\]|\\.)*")$`)

// outOfRange returns the first member that is a number out of the range of float64, if there is one.
func outOfRange(document any, path string) (member string, number json.Number) {
	switch v := document.(type) {
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return path, v
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if at, number := outOfRange(v[name], join(path, name)); at != "" {
				return at, number
			}
		}
	case []any:
		for i, of := range v {
			if at, number := outOfRange(of, fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at, number
			}
		}
	}
	return "", ""
}

// rangeField is the problem that the error of a number out of range tells.
func rangeField(message string) (FieldError, bool) {
	m := rangeError.FindStringSubmatch(message)
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
