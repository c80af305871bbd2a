package ingesthttp

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/millrace-io/millrace/internal/httpapi"
)

type kind uint8

const (
	kindJSON kind = iota
	kindLines
)

const linesType = "application/x-ndjson"

// kindOf tells JSON from JSON lines. Any other type is refused, a missing one
// too: pages of other origins can send those without asking.
func kindOf(r *http.Request) (kind, *httpapi.Problem) {
	header := r.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(header)
	switch {
	case err != nil:
	case mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"):
		return kindJSON, nil
	case mediaType == linesType || mediaType == "application/ndjson" || mediaType == "application/jsonl":
		return kindLines, nil
	}
	return 0, httpapi.UnsupportedType(header, "application/json or "+linesType)
}

// readBody reads a body that may be compressed. LimitBody has bounded what
// comes over the wire; this bounds what it expands to, and by its part of them
// what all bodies together take.
func readBody(r *http.Request, p *part) ([]byte, *httpapi.Problem) {
	var src io.Reader = r.Body
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		zip, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, badGzip(err)
		}
		src = zip
	default:
		return nil, httpapi.NewProblem(http.StatusUnsupportedMediaType,
			fmt.Sprintf("the content encoding %q is not supported", encoding),
			httpapi.FieldError{
				Field: "Content-Encoding", Code: "content_encoding",
				Rule: "must be gzip or identity",
			}).WithHeader("Accept-Encoding", "gzip, identity")
	}
	var body bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= MaxBody {
		body.Grow(int(min(n, 64<<10)) + bytes.MinRead) // the claim alone earns no more
	}
	_, err := body.ReadFrom(io.LimitReader(measured{src, p}, MaxBody+1))
	switch {
	case errors.Is(err, errHeld):
		return nil, httpapi.NewProblem(http.StatusServiceUnavailable,
			"too many large requests are under way; send this one again",
			httpapi.FieldError{Code: "busy", Rule: err.Error()}).WithHeader("Retry-After", "1")
	case err != nil:
		return nil, badGzip(err)
	case body.Len() > MaxBody:
		return nil, httpapi.TooLarge(MaxBody)
	}
	return body.Bytes(), nil
}

func badGzip(err error) *httpapi.Problem {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) || !(errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum)) {
		p := httpapi.BodyProblem(err)
		if len(p.Errors) == 0 {
			p.Errors = []httpapi.FieldError{{Code: "body", Rule: p.Detail}}
		}
		return p
	}
	return httpapi.NewProblem(http.StatusBadRequest, "the request body is not gzip",
		httpapi.FieldError{Code: "gzip", Rule: "must be valid gzip: " + err.Error()})
}

// splitBatch returns the texts of the events of {"events":[…]}, and of too many
// of them one more than there may be: a body has room for millions.
func splitBatch(body []byte) ([][]byte, *httpapi.Problem) {
	var batch struct {
		Events [MaxEvents + 1]json.RawMessage
	}
	err := json.Unmarshal(body, &batch)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return nil, badRequest("events", "type", "must be a list of events")
	case errors.As(err, &wrongType):
		return nil, badRequest("", "json", "the body must be one JSON object")
	case err != nil:
		return nil, badRequest("", "json", "the body must be valid JSON: "+err.Error())
	}
	var items [][]byte
	for _, e := range batch.Events {
		if e == nil {
			break
		}
		items = append(items, e)
	}
	return items, nil
}

// splitLines returns the lines that are not blank, and of too many of them one
// more than there may be.
func splitLines(body []byte) [][]byte {
	var items [][]byte
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			items = append(items, line)
		}
		if len(items) > MaxEvents {
			break
		}
	}
	return items
}

func badRequest(field, code, rule string) *httpapi.Problem {
	detail := rule
	if field != "" {
		detail = field + ": " + rule
	}
	return httpapi.NewProblem(http.StatusBadRequest, detail, httpapi.FieldError{Field: field, Code: code, Rule: rule})
}
