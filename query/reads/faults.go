package reads

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/schemas/event"
)

// Faults collect what is wrong with a request, so that its caller is told all of
// it at once.
type Faults []httpapi.FieldError

// Add takes the fields of a problem; nil is none.
func (f *Faults) Add(p *httpapi.Problem) {
	if p != nil {
		*f = append(*f, p.Errors...)
	}
}

// Check takes an error that is a broken rule, or several; nil is none.
func (f *Faults) Check(err error) {
	for _, e := range endpoint.Faults(err) {
		*f = append(*f, e.(httpapi.FieldError))
	}
}

// Window parses the window that a request asks for.
func (f *Faults) Window(r WindowRequest) WindowSpec {
	spec, err := ParseWindow(r)
	f.Check(err)
	return spec
}

// Err is the problem of a request with faults, nil without.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f.Problem()
}

// Problem is what the caller of a request with faults is told.
func (f Faults) Problem() *httpapi.Problem {
	return httpapi.NewProblem(http.StatusBadRequest, "the request breaks a rule", f...)
}

// Broken is the problem of a parameter that breaks a rule.
func Broken(field, code, rule string) *httpapi.Problem {
	return httpapi.NewProblem(http.StatusBadRequest, "a parameter breaks a rule",
		httpapi.FieldError{Field: field, Code: code, Rule: rule})
}

// CheckName checks a name that events carry. Empty means that it does not
// filter.
func CheckName(field, name string) *httpapi.Problem {
	switch {
	case len(name) > event.MaxName:
		return Broken(field, "length", "must be at most 256 bytes")
	case !utf8.ValidString(name):
		return Broken(field, "utf8", "must be valid UTF-8")
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return Broken(field, "control_character", "must not contain control characters")
	}
	return nil
}

// ParseTime reads an optional time, RFC 3339. Without one it returns the zero
// time.
func ParseTime(field, text string) (time.Time, *httpapi.Problem) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := ParseMoment(text)
	if err != nil {
		return t, Broken(field, "time_format", err.Error())
	}
	return t, nil
}
