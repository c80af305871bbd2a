package job

import (
	"strings"
	"testing"
)

// TestReadResult: a member with a wrong type counts as left out, and is named.
func TestReadResult(t *testing.T) {
	const wholeRule = "articles_count must be a whole number from 0 to 2147483647, and is "
	for text, want := range map[string]struct {
		articles int32 // -1: not said
		duration float64
		rules    string
	}{
		`{"articles_count":47,"duration_seconds":12.5}`:  {47, 12.5, ""},
		`{"articles_count":4.7e1,"pages":3}`:             {47, -1, ""},
		`{}`:                                             {-1, -1, ""},
		`{"articles_count":null}`:                        {-1, -1, ""},
		`{"articles_count":"47","duration_seconds":1}`:   {-1, 1, wholeRule + `"47"`},
		`{"articles_count":47,"duration_seconds":"1 s"}`: {47, -1, `duration_seconds must be a number of seconds from 0 to 31536000, and is "1 s"`},
		`{"articles_count":4.5}`:                         {-1, -1, wholeRule + "4.5"},
		`{"articles_count":-1}`:                          {-1, -1, wholeRule + "-1"},
		`{"articles_count":2147483648}`:                  {-1, -1, wholeRule + "2147483648"},
		`{"articles_count":[1],"duration_seconds":-1}`: {
			-1, -1, wholeRule + "[1]; duration_seconds must be a number of seconds from 0 to 31536000, and is -1",
		},
		`47`:   {-1, -1, "the result must be a JSON object"},
		`null`: {-1, -1, ""},
	} {
		got, rules := ReadResult([]byte(text))
		articles, duration := int32(-1), -1.0
		if got.Articles != nil {
			articles = *got.Articles
		}
		if got.Duration != nil {
			duration = *got.Duration
		}
		if articles != want.articles || duration != want.duration || strings.Join(rules, "; ") != want.rules {
			t.Errorf("%s: %d, %g, %v, want %+v", text, articles, duration, rules, want)
		}
	}
}
