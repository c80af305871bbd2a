package dlq

import "testing"

func FuzzIDs(f *testing.F) {
	for _, text := range []string{
		"7", "EVENTS/7", "7-9", "0", "a/b", "-1", "EVENTS/18446744073709551616",
		"1-18446744073709551615",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := parseID(text); err == nil && (k.seq == 0 || (k.stream != "" && !isStream(k.stream))) {
			t.Errorf("%q is %+v", text, k)
		}
		if c, err := ParseCursor(text); err == nil {
			if again, err := ParseCursor(c.String()); err != nil || again != c {
				t.Errorf("%q is %+v, and then %+v, %v", text, c, again, err)
			}
		}
	})
}

// A subject matches itself, and > matches whatever is a subject.
func FuzzMatchSubject(f *testing.F) {
	f.Add("events.*.a3", "events.crawled.a3")
	f.Add("a.>", "a.b.c")
	f.Add(">", "a..b")
	f.Fuzz(func(t *testing.T, pattern, subject string) {
		matched := matchSubject(pattern, subject)
		if !isPattern(subject) {
			return
		}
		if !matchSubject(subject, subject) || !matchSubject(">", subject) || (matched && !isPattern(pattern)) {
			t.Errorf("%q, %q: %v", pattern, subject, matched)
		}
	})
}
