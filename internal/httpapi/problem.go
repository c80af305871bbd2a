package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// FieldError names a field of a request and the rule that it breaks.
type FieldError struct {
	Field string `json:"field" doc:"The field or parameter; empty when the content as a whole is meant" example:"occurred_at"`
	Code  string `json:"code" doc:"A stable name of the rule, for programs" example:"time_future"`
	Rule  string `json:"rule" doc:"The rule, for people" example:"must not be in the future (5s of clock skew are allowed)"`
}

func (e FieldError) Error() string {
	if e.Field == "" {
		return e.Rule
	}
	return e.Field + ": " + e.Rule
}

// Problem is a problem document (RFC 9457). It is an error which huma
// operations return, and what plain handlers pass to WriteProblem.
type Problem struct {
	Type   string       `json:"type" doc:"A URI reference that identifies the kind of problem" example:"about:blank"`
	Title  string       `json:"title" doc:"The status in words" example:"Bad Request"`
	Status int          `json:"status" doc:"The HTTP status code" example:"400"`
	Detail string       `json:"detail,omitempty" doc:"What went wrong in this case" example:"the event breaks a rule"`
	Errors []FieldError `json:"errors,omitempty" doc:"The fields that break rules"`

	header http.Header
	cause  error
}

// TransformSchema says in the API's description that problems may have members of
// their own, such as the state that a conflict has met.
func (Problem) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.AdditionalProperties = true
	return s
}

// NewProblem returns the problem with a status, its description, and the
// fields that cause it.
func NewProblem(status int, detail string, errs ...FieldError) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Errors: errs}
}

const internalError = "an internal error occurred; the server's log has the cause"

// Internal returns a problem with status 500 that hides its cause from the
// caller; the cause is logged.
func Internal(cause error) *Problem {
	p := NewProblem(http.StatusInternalServerError, internalError)
	p.cause = cause
	return p
}

// WithHeader adds a header to the response, such as Retry-After.
func (p *Problem) WithHeader(key, value string) *Problem {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Add(key, value)
	return p
}

func (p *Problem) Error() string {
	text := p.Title
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	for _, e := range p.Errors {
		text += "; " + e.Error()
	}
	return text
}

// Unwrap returns the cause that the document does not show.
func (p *Problem) Unwrap() error { return p.cause }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// WriteProblem answers a request with a problem document.
func WriteProblem(w http.ResponseWriter, p *Problem) { WriteProblemDocument(w, p, p) }

// WriteProblemDocument answers with a problem whose document has members of
// its own beside those of p.
func WriteProblemDocument(w http.ResponseWriter, p *Problem, document any) {
	if p.cause != nil {
		reportCause(w, p.cause)
	}
	h := w.Header()
	maps.Copy(h, p.header)
	h.Set("Content-Type", problemType)
	h.Del("Content-Length")
	w.WriteHeader(p.Status)
	// A caller that has gone away is no error of ours.
	_ = json.NewEncoder(w).Encode(document)
}

// Abort answers with a problem from within a handler that may have begun its answer. If it
// has, the frame closes the connection, so that no client takes a part for the whole answer.
// Abort does not return.
func Abort(p *Problem) { panic(p) }

// BodyProblem turns an error from reading a request's body into a problem:
// 413 when the body exceeds its limit, 408 when it came too slowly, else 400.
func BodyProblem(err error) *Problem {
	var tooLarge *http.MaxBytesError
	var slow interface{ Timeout() bool }
	switch {
	case errors.As(err, &tooLarge):
		return TooLarge(tooLarge.Limit)
	case errors.As(err, &slow) && slow.Timeout():
		return NewProblem(http.StatusRequestTimeout, "the request body came too slowly")
	}
	return NewProblem(http.StatusBadRequest, "the request body cannot be read",
		FieldError{Code: "body", Rule: "must be complete: " + err.Error()})
}

// TooLarge returns the problem of a body of more than limit bytes.
func TooLarge(limit int64) *Problem {
	rule := fmt.Sprintf("must be at most %d bytes", limit)
	return NewProblem(http.StatusRequestEntityTooLarge, "the request body "+rule,
		FieldError{Code: "body_size", Rule: rule})
}

// UnsupportedType returns the problem of a Content-Type that a route does not
// take.
func UnsupportedType(got, want string) *Problem {
	return NewProblem(http.StatusUnsupportedMediaType, fmt.Sprintf("the content type %q is not supported", got),
		FieldError{Field: "Content-Type", Code: "content_type", Rule: "must be " + want})
}
