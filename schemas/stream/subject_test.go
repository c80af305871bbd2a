package stream

import (
	"crypto/sha256"
	"testing"
)

func TestSubjects(t *testing.T) {
	hash := sha256.Sum256([]byte("https://example.com/article-123"))
	subject := EventSubject("classified", hash)
	if !MatchesSubject(subject, []byte("classified"), hash) {
		t.Errorf("%s does not match its own event", subject)
	}
	for _, other := range []string{
		"events.classified.00", "events.crawled." + subject[len(subject)-2:], "events.classified", subject + "0",
		"event" + subject[6:], "",
	} {
		if MatchesSubject(other, []byte("classified"), hash) {
			t.Errorf("%q matches an event of %s", other, subject)
		}
	}
	if n := testing.AllocsPerRun(100, func() { MatchesSubject(subject, []byte("classified"), hash) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
