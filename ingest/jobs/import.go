package jobs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/schemas/source"
)

const (
	maxImport   = 32 << 20 // bytes
	importBatch = 500      // sources of one transaction
	importTime  = 5 * time.Minute
	shownLines  = 1000 // refused lines that an answer names
)

// formatOf says by which types of content a list is of which format.
var formatOf = map[string]string{
	"text/csv": sources.CSV, "application/x-ndjson": sources.JSONL, "application/jsonl": sources.JSONL,
	"text/x-opml": sources.OPML, "application/xml": sources.OPML, "text/xml": sources.OPML,
}

// RefusedLine is a line of a list that breaks a rule.
type RefusedLine struct {
	Line int `json:"line" doc:"From 1"`
	httpapi.FieldError
}

// ImportedSources says what became of a list.
type ImportedSources struct {
	sources.Imported
	Repeated       int           `json:"repeated" doc:"Lines with a URL that an earlier line has: they count for nothing"`
	Refused        int           `json:"refused" doc:"Lines that break a rule; all others have gone in"`
	Errors         []RefusedLine `json:"errors" nullable:"false" doc:"Which rules they break, of the first 1,000 lines"`
	IgnoredColumns []string      `json:"ignored_columns" nullable:"false" doc:"Columns of a table that are neither fields of a source nor settings of its job"`
}

func (h *Handler) registerImport(api endpoint.API) {
	content := map[string]*huma.MediaType{}
	for kind := range formatOf {
		content[kind] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	}
	srv := api.Server
	srv.Handle(&huma.Operation{
		OperationID: "import-sources", Method: http.MethodPost, Path: "/sources/import", Tags: []string{"Sources"},
		Summary: "Make and change sources by a list",
		Description: "OPML, CSV with a header, or JSON lines, of at most 32 MiB. A source is known by its URL: one " +
			"that there is none of is made, " +
			"and of one that there is the fields that the list gives are changed. The same list again changes " +
			"nothing. " +
			"A line that breaks a rule keeps no other back; a list that cannot be read as a whole does. After 503 " +
			"send the same list again.",
		Security:    auth.Security(auth.Admin),
		RequestBody: &huma.RequestBody{Required: true, Content: content},
		Responses: srv.Problems(map[string]*huma.Response{
			"200": srv.Answer("What became of it", ImportedSources{}),
		}, 400, 401, 403, 408, 413, 415, 503),
	}, h.serveImport(api), api.Auth.Require(auth.Admin), httpapi.LimitBody(maxImport))
}

func (h *Handler) serveImport(api endpoint.API) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get("Content-Type")
		kind, _, _ := mime.ParseMediaType(header) // a malformed header has no type
		format, known := formatOf[kind]
		if !known {
			kinds := strings.Join(slices.Sorted(maps.Keys(formatOf)), ", ")
			httpapi.WriteProblem(w, httpapi.UnsupportedType(header, "one of "+kinds))
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			httpapi.WriteProblem(w, httpapi.BodyProblem(err))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), importTime)
		defer cancel()
		done, err := h.Import(ctx, format, body)
		if err != nil {
			api.Refuse(w, err)
			return
		}
		httpapi.WriteJSON(w, http.StatusOK, done)
	}
}

// Import makes and changes sources by a list. It reads the whole list before the first source changes.
func (h *Handler) Import(ctx context.Context, format string, list []byte) (ImportedSources, error) {
	done := ImportedSources{Errors: []RefusedLine{}, IgnoredColumns: []string{}}
	var drafts []sources.Listed
	seen := map[string]bool{}
	ignored, err := sources.ReadList(format, bytes.NewReader(list), func(l sources.ListLine) error {
		broken := l.Draft.BrokenAlone()
		if len(broken) > 1 { // the name would come from the URL, and that is said to be wrong
			broken = slices.DeleteFunc(broken, noName)
		}
		switch {
		case len(broken) > 0:
			done.refuse(l.Number, broken)
		case seen[l.Draft.URL()]:
			done.Repeated++
		default:
			seen[l.Draft.URL()] = true
			drafts = append(drafts, sources.Listed{Draft: l.Draft, Job: l.Job})
		}
		return nil
	})
	if err != nil {
		return done, err
	}
	done.IgnoredColumns = append(done.IgnoredColumns, ignored...)
	for batch := range slices.Chunk(drafts, importBatch) {
		n, err := h.sources.Import(ctx, batch)
		if err != nil {
			return done, fmt.Errorf("after %d sources: %w", done.Created+done.Updated+done.Unchanged, err)
		}
		done.add(n)
	}
	return done, nil
}

func noName(b source.Invalid) bool { return b.Field == "name" && b.Code == "missing" }

func (s *ImportedSources) add(n sources.Imported) {
	s.Created += n.Created
	s.Updated += n.Updated
	s.Unchanged += n.Unchanged
}

func (s *ImportedSources) refuse(line int, broken []source.Invalid) {
	if s.Refused++; s.Refused > shownLines {
		return
	}
	for _, b := range broken {
		s.Errors = append(s.Errors, RefusedLine{line, httpapi.FieldError(b)})
	}
}
