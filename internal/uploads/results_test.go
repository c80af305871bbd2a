package uploads

import (
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"
)

// FuzzCells: a list of texts is read as package json reads it, however it is written.
func FuzzCells(f *testing.F) {
	for _, list := range []string{
		`[]`, `["a","b"]`, `["", "\"","\\","\\\"x"]`, "[\"a\u2028\u00e9\",\"\\u2028\\ud83d\\ude00\"]", `[ "a"]`, `["a"`, `["a",]`, `["a"]]`,
		`["a\"]`, `[1]`, `["a",null]`, `["a"x]`, `[`, ``, `["a","b"] `, `["\u00`,
	} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		if !utf8.ValidString(list) { // Postgres stores none
			return
		}
		var want []string
		wrong := json.Unmarshal([]byte(list), &want)
		got, err := cellsOf(list, 2)
		switch {
		case wrong == nil && (err != nil || !slices.Equal(got, want)):
			t.Errorf("%q was read as %q, %v, want %q", list, got, err, want)
		case wrong != nil && err == nil && json.Valid([]byte(list)): // Postgres stores no other
			t.Errorf("%q was read as %q, want %v", list, got, wrong)
		}
	})
}
