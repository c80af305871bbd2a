package dlq

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// maxText bounds the texts of a filter in bytes: no subject or code that
// exists is longer.
const maxText = 512

// Filter selects letters. A zero field does not filter.
type Filter struct {
	Stream  string    // that the message came from
	Code    string    // of the rule that it breaks
	Field   string    // that breaks it
	Subject string    // that the message came on; * and > are NATS wildcards
	Since   time.Time // when the message's stream received it, inclusive
	Until   time.Time // exclusive
}

// Empty tells whether every letter passes.
func (f Filter) Empty() bool { return f == Filter{} }

// Check returns, joined, an Invalid for each text that no letter could have, a
// subject that NATS does not know, and times in the wrong order.
func (f Filter) Check() error {
	var errs []error
	for _, text := range [...][2]string{
		{"stream", f.Stream},
		{"code", f.Code},
		{"field", f.Field},
		{"subject", f.Subject},
	} {
		errs = append(errs, checkText(text[0], text[1]))
	}
	if f.Stream != "" && !isStream(f.Stream) {
		errs = append(errs, badStream("stream"))
	}
	if f.Subject != "" && !isPattern(f.Subject) {
		errs = append(errs, &Invalid{Field: "subject", Code: "subject", Rule: "must be a NATS subject: names with dots between them, " +
			"where * stands for one name and > at the end for one or more"})
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		errs = append(errs, &Invalid{Field: "until", Code: "span_order", Rule: "must be later than since"})
	}
	return errors.Join(errs...)
}

func checkText(field, text string) error {
	switch {
	case len(text) > maxText:
		return &Invalid{Field: field, Code: "length", Rule: fmt.Sprintf("must be at most %d bytes", maxText)}
	case !utf8.ValidString(text):
		return &Invalid{Field: field, Code: "utf8", Rule: "must be valid UTF-8"}
	case strings.ContainsFunc(text, isControl):
		return &Invalid{Field: field, Code: "control_character", Rule: "must not contain control characters"}
	}
	return nil
}

func isControl(r rune) bool { return r < 0x20 || (r >= 0x7f && r < 0xa0) }

func badStream(field string) error {
	return &Invalid{Field: field, Code: "stream", Rule: "must be the name of a stream: letters, digits, '_' and '-'"}
}

// isStream is stricter than NATS: the name becomes a part of a subject.
func isStream(name string) bool {
	const good = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return name != "" && strings.Trim(name, good) == ""
}

func isPattern(subject string) bool {
	if strings.ContainsAny(subject, " \t") {
		return false
	}
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		if token == "" || (token == ">" && i < len(tokens)-1) {
			return false
		}
	}
	return true
}

// subject is what the server can select by.
func (f Filter) subject() string {
	if f.Stream == "" {
		return "dlq.>"
	}
	return "dlq." + f.Stream + ".*"
}

// matches tells whether a letter passes that the server has selected.
func (f Filter) matches(l *Letter) bool {
	return (f.Code == "" || f.Code == l.Code) &&
		(f.Field == "" || f.Field == l.Field) &&
		(f.Subject == "" || matchSubject(f.Subject, l.Subject)) &&
		(f.Since.IsZero() || !l.ReceivedAt.Before(f.Since)) &&
		(f.Until.IsZero() || l.ReceivedAt.Before(f.Until))
}

// matchSubject matches a subject as NATS does.
func matchSubject(pattern, subject string) bool {
	for {
		p, morePattern, pMore := strings.Cut(pattern, ".")
		if p == ">" && !pMore {
			return subject != ""
		}
		t, moreSubject, tMore := strings.Cut(subject, ".")
		if t == "" || (p != "*" && p != t) || pMore != tMore {
			return false
		}
		if !pMore {
			return true
		}
		pattern, subject = morePattern, moreSubject
	}
}
