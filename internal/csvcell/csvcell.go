// Package csvcell writes texts into cells of CSV so that no spreadsheet takes them for
// formulas, and reads them back.
package csvcell

import (
	"strings"
	"unicode/utf8"
)

// Escape puts an apostrophe before a text that spreadsheets would take for a formula,
// and might run. It puts another one before a text that looks as if it had been
// escaped, so that Unescape finds each text again.
func Escape(text string) string {
	if formula(text) {
		return "'" + text
	}
	return text
}

// Unescape takes off the apostrophe that Escape has put on.
func Unescape(text string) string {
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
