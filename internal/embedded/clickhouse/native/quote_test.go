package native

import "testing"

func TestUnquote(t *testing.T) {
	for text, want := range map[string]string{
		`'a'`: "a", `''`: "", `'it''s'`: "it's", `'\'\\\n\t\0\x41\q'`: "'\\\n\t\x00Aq",
	} {
		if got, err := unquote(text); got != want || err != nil {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "'", "a", `'a`, `'a'b'`, `'a\'`} {
		if got, err := unquote(text); err == nil {
			t.Errorf("%s is read as %q", text, got)
		}
	}
}
