package tabular

import (
	"strings"
	"unicode/utf8"
)

// EscapeCell puts an apostrophe before a text that spreadsheets would take for a formula,
// and might run. It puts another one before a text that looks as if it had been
// escaped, so that UnescapeCell finds each text again.
func EscapeCell(text string) string {
	if formula(text) {
		return "'" + text
	}
	return text
}

// UnescapeCell takes off the apostrophe that EscapeCell has put on.
func UnescapeCell(text string) string {
	if rest, escaped := strings.CutPrefix(text, "'"); escaped && formula(rest) {
		return rest
	}
	return text
}

// formula tells whether a text, behind any apostrophes, begins as formulas do.
func formula(text string) bool {
	text = strings.TrimLeft(text, "'")
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first)
}
