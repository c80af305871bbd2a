package item

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOf(t *testing.T) {
	for err, want := range map[string]string{
		"550 no such user 17":                               "‹n› no such user ‹n›",
		"GET https://a.example/x?y=1: timeout after 3.5s":   "GET ‹url› timeout after ‹n›s",
		"item 6f1f0b3e-9a3c-4a0e-8f53-0f3a1c2d4e5f is gone": "item ‹id› is gone",
		"dial tcp 10.0.0.7:25: connection refused":          "dial tcp ‹n›: connection refused",
		"checksum DEADBEEF01 differs":                       "checksum ‹id› differs",
		"the defaced decade, 1 of 2":                        "the defaced decade, ‹n› of ‹n›",
		"the deadline has passed":                           "the deadline has passed",
		" two\n\t lines ":                                   "two lines",
		"":                                                  NoError,
		" ":                                                 NoError,
	} {
		if got := Fingerprint(err); got != want {
			t.Errorf("%q has the fingerprint %q, want %q", err, got, want)
		}
	}
}

// FuzzOf: whatever the error is, no number is left, and it stays text that can be
// sent and compared.
func FuzzOf(f *testing.F) {
	f.Add("GET https://a.example/x?y=1: 6f1f0b3e-9a3c-4a0e-8f53-0f3a1c2d4e5f deadbeef01 10.0.0.7:25")
	f.Add("0A://0")
	f.Fuzz(func(t *testing.T, err string) {
		got := Fingerprint(err)
		if strings.ContainsAny(got, digits) || got == "" || utf8.ValidString(err) && !utf8.ValidString(got) {
			t.Errorf("%q has the fingerprint %q", err, got)
		}
	})
}
