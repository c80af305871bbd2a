package tabular

import (
	"strings"
	"testing"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":            "",
		"a=1":         "a=1",
		"'":           "'",
		"'a":          "'a",
		"=1+1":        "'=1+1",
		"@SUM(1)":     "'@SUM(1)",
		"-2":          "'-2",
		"\t=1":        "'\t=1",
		"＝1":          "'＝1",
		"'=1":         "''=1",
		"''+1":        "'''+1",
		"\ufffd=1":    "\ufffd=1",
		" =1":         " =1",
		"日本":          "日本",
		"=cmd|' /C'!": "'=cmd|' /C'!",
	} {
		if got := EscapeCell(text); got != want || UnescapeCell(got) != text {
			t.Errorf("%q is escaped as %q, want %q, and read as %q", text, got, want, UnescapeCell(got))
		}
	}
}

// FuzzEscape: no escaped text begins as a formula, and each is read as what it was.
func FuzzEscape(f *testing.F) {
	f.Add("'=1")
	f.Fuzz(func(t *testing.T, text string) {
		escaped := EscapeCell(text)
		if UnescapeCell(escaped) != text || escaped != "" && strings.ContainsAny(escaped[:1], "=+-@\t\r\n") {
			t.Errorf("%q is escaped as %q, and read as %q", text, escaped, UnescapeCell(escaped))
		}
	})
}
