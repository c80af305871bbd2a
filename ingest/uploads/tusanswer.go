package uploads

import (
	"context"
	"net/http"
	"path"
	"strings"
	"time"

	tus "github.com/tus/tusd/v2/pkg/handler"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// tusAnswer turns an answer of the protocol into one of the API: errors are problems, and Location is
// relative, so that it holds behind any proxy.
type tusAnswer struct {
	http.ResponseWriter
	problem *httpapi.Problem // is the answer
	expires time.Time        // when the upload is deleted unless it goes on; zero: it is not
	ended   bool
}

type tusAnswerKey struct{}

// Unwrap serves http.ResponseController.
func (a *tusAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *tusAnswer) WriteHeader(status int) {
	if a.ended {
		return
	}
	if status >= http.StatusBadRequest {
		if a.problem == nil {
			a.problem = httpapi.NewProblem(status, http.StatusText(status))
		}
		return // end has the text
	}
	header := a.Header()
	if location := header.Get("Location"); location != "" {
		header.Set("Location", "tus/"+path.Base(location))
	}
	if extensions := header.Get("Tus-Extension"); extensions != "" {
		header.Set("Tus-Extension", extensions+",expiration")
	}
	if !a.expires.IsZero() {
		header.Set("Upload-Expires", a.expires.UTC().Format(http.TimeFormat))
	}
	a.ended = true
	a.ResponseWriter.WriteHeader(status)
}

// tusRules are the rules that are broken, by the error code of the protocol's library.
var tusRules = map[string]httpapi.FieldError{
	"ERR_UNSUPPORTED_VERSION":   {Field: "Tus-Resumable", Code: "version", Rule: "must be 1.0.0"},
	"ERR_INVALID_UPLOAD_LENGTH": {Field: "Upload-Length", Code: "length", Rule: "must be the file's bytes, and be known"},
	"ERR_NOT_IMPLEMENTED":       {Field: "Upload-Length", Code: "length", Rule: "must be said when the upload begins, and never again"},
	"ERR_MAX_SIZE_EXCEEDED":     {Field: "Upload-Length", Code: "body_size", Rule: "must be at most what Tus-Max-Size says"},
	"ERR_UPLOAD_SIZE_EXCEEDED":  {Field: "Upload-Length", Code: "body_size", Rule: "must not be exceeded: more bytes came than the file has"},
	"ERR_INVALID_OFFSET":        {Field: "Upload-Offset", Code: "offset", Rule: "must be a number of bytes"},
	"ERR_MISMATCHED_OFFSET":     {Field: "Upload-Offset", Code: "offset", Rule: "must be how much has come in: HEAD says so"},
	"ERR_INVALID_CONTENT_TYPE":  {Field: "Content-Type", Code: "content_type", Rule: "must be application/offset+octet-stream"},
	"ERR_UNEXPECTED_EOF":        {Code: "body", Rule: "must be complete: what came is stored, and HEAD says how much"},
}

// tusStatuses replace statuses of the library that are too general.
var tusStatuses = map[string]int{
	"ERR_NOT_IMPLEMENTED": http.StatusBadRequest, "ERR_READ_TIMEOUT": http.StatusRequestTimeout,
	"ERR_CONNECTION_RESET": http.StatusBadRequest, "ERR_INVALID_CONTENT_TYPE": http.StatusUnsupportedMediaType,
}

// Write implements http.ResponseWriter.
func (a *tusAnswer) Write(p []byte) (int, error) {
	if a.problem == nil {
		return a.ResponseWriter.Write(p)
	}
	code, message, known := strings.Cut(strings.TrimSpace(string(p)), ": ")
	if known && strings.HasPrefix(code, "ERR_") {
		status, changed := tusStatuses[code]
		if !changed {
			status = a.problem.Status
		}
		a.problem = httpapi.NewProblem(status, message)
		if rule, is := tusRules[code]; is {
			a.problem.Errors = []httpapi.FieldError{rule}
		}
	}
	return len(p), nil
}

// end answers with the problem, if there is one.
func (a *tusAnswer) end() {
	if a.problem != nil && !a.ended {
		a.ended = true
		a.Header().Del("Location")
		httpapi.WriteProblem(a.ResponseWriter, a.problem)
	}
}

// answerOf returns the answer to the request of a context.
func answerOf(ctx context.Context) *tusAnswer {
	answer, _ := ctx.Value(tusAnswerKey{}).(*tusAnswer)
	return answer
}

// tusError has the caller told what an error means, and returns what the protocol takes for one.
func (h *Handler) tusError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	problem := h.problem(err)
	answerOf(ctx).problem = problem
	return tus.NewError("", "", problem.Status)
}
