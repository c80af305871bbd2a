package uploads

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// maxField is the size of a field of a form beside the file, in bytes.
const maxField = 64 << 10

// Bounds of the time that a file may take: each of its bytes may take as long as at leastRate bytes a
// second, and grace more. No wait for bytes may take longer than grace.
const (
	leastRate = 32 << 10
	grace     = time.Minute
	// sign is how often a file that comes in gives one.
	sign = 30 * time.Second
)

// UploadReceived is the answer to a file.
type UploadReceived struct {
	JobID      string `json:"jobId"`
	QueueState string `json:"queue_state" enum:"QUEUED,PAUSED"`
	Format     string `json:"format" enum:"csv,ndjson,xlsx,zip"`
	Encoding   string `json:"encoding" doc:"Empty for XLSX, and for a zip unless it was said"`
	Delimiter  string `json:"delimiter" doc:"Of CSV; else empty"`
	Size       int64  `json:"size" doc:"Bytes of the file"`
	SHA256     string `json:"sha256" doc:"Of the file, in hexadecimal digits"`
}

func (h *Handler) registerReceive(s *httpapi.Server) {
	text := func(what string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: what} }
	limit := h.store.Limits().File
	s.Handle(&huma.Operation{
		OperationID: "create-upload", Method: http.MethodPost, Path: "/uploads", Tags: []string{"Uploads"},
		Summary: "Upload a file of rows",
		Description: fmt.Sprintf("CSV with a header, JSON lines, XLSX or a zip of images, of at most %d MiB. The answer comes when the file "+
			"is on disk. Rows are persisted and processed in the background. A caller that gets no answer cannot "+
			"know whether there is an upload: GET /uploads shows it.", limit>>20),
		Security: uploadsapi.Security(),
		Parameters: []*huma.Param{{
			Name: "hold", In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean},
			Description: "Have the upload wait as PAUSED, so that preview can be looked at first",
		}},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {
			Schema: referenceSchema(text),
		}, "multipart/form-data": {
			Schema: &huma.Schema{
				Type: huma.TypeObject, Required: []string{"file"}, AdditionalProperties: false,
				Properties: map[string]*huma.Schema{
					"file":      {Type: huma.TypeString, Format: "binary", Description: "The file"},
					"processor": text("What makes results of rows: copy, by which each row is its result, or the name of a queue whose workers do. Default copy"),
					"name":      text("Of the upload, at most 255 characters; default that of the file"),
					"mapping":   text(`Names of columns by field, a JSON object: {"title":"ProductName"}. title, brand and sku summarize items; image names the images of a zip`),
					"format":    text("csv, ndjson, xlsx or zip; default as the file's first bytes and name say"),
					"encoding":  text("Default as the file's bytes say"),
					"delimiter": text("Of CSV; default as the first rows say"),
					"hold":      text("As the parameter; true or false"),
				},
			},
		}}},
		Responses: s.Problems(map[string]*huma.Response{"201": s.Answer("The upload is made", UploadReceived{})},
			400, 401, 403, 408, 409, 413, 415, 503),
	}, http.HandlerFunc(h.receive), h.auth.Require(auth.Uploads), h.named, httpapi.LimitBody(limit+(1<<20)))
}

// named lets callers in who have a name.
func (h *Handler) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.auth.Protected() && auth.CallerFrom(r.Context()).Subject == "" {
			httpapi.WriteProblem(w, httpapi.NewProblem(http.StatusForbidden, "the token names no user: uploads belong to its sub"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// form is what a request says of its file.
type form struct {
	what string // breaks a rule, as errors have it; default: the form
	more string // fields that there are beside those of every form; default: file

	processor, name, format, encoding, delimiter string

	mapping map[string]string
	hold    bool
	seen    []string
	errs    []httpapi.FieldError
}

func (h *Handler) receive(w http.ResponseWriter, r *http.Request) {
	caller := auth.CallerFrom(r.Context())
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && kind == "application/json" && h.references != nil {
		h.receiveReference(w, r)
		return
	}
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		httpapi.WriteProblem(w, httpapi.UnsupportedType(r.Header.Get("Content-Type"), "multipart/form-data with a boundary, or application/json"))
		return
	}
	in := &incoming{h: h, ctx: r.Context(), conn: http.NewResponseController(w), begun: time.Now()}
	in.form.processor = schema.Copy
	in.form.set("hold", r.URL.Query().Get("hold"))
	id, err := h.store.Begin(r.Context(), caller.Subject, httpapi.ClientFrom(r.Context()).String(), max(r.ContentLength, 0))
	if err != nil {
		h.refuse(w, err)
		return
	}
	in.id = id
	h.finish(w, in, func() (uploads.Received, error) { return in.read(multipart.NewReader(r.Body, params["boundary"])) })
}

// finish stores a file and makes its upload known, or leaves nothing of it.
func (h *Handler) finish(w http.ResponseWriter, in *incoming, read func() (uploads.Received, error)) {
	received, err := read()
	if err == nil {
		err = h.complete(in.ctx, in.id, received)
	}
	if err != nil {
		h.abandon(in.id)
		h.refuse(w, err)
		return
	}
	answer := UploadReceived{
		JobID: in.id.String(), QueueState: schema.Queued, Format: received.Format.Kind, Encoding: received.Format.Encoding,
		Size: received.Size, SHA256: hex.EncodeToString(received.SHA256),
	}
	if received.Hold {
		answer.QueueState = schema.Paused
	}
	if d := received.Format.Delimiter; d != 0 {
		answer.Delimiter = string(d)
	}
	httpapi.WriteJSON(w, http.StatusCreated, answer)
}

// refuse says why there is no upload.
func (h *Handler) refuse(w http.ResponseWriter, err error) { httpapi.WriteProblem(w, h.problem(err)) }

// problem turns an error into what the caller is told.
func (h *Handler) problem(err error) *httpapi.Problem {
	var body *bodyError
	if errors.As(err, &body) {
		return httpapi.BodyProblem(body.err)
	}
	known := uploadsapi.Known(err)
	switch {
	case known != nil:
		err = known
	case errors.Is(err, uploads.ErrTooLarge):
		err = httpapi.TooLarge(h.store.Limits().File)
	case errors.Is(err, uploads.ErrMoved):
		err = httpapi.NewProblem(http.StatusConflict, "another request has sent more of the file", tusRules["ERR_MISMATCHED_OFFSET"])
	case errors.Is(err, uploads.ErrTooManyParts):
		err = httpapi.NewProblem(http.StatusBadRequest, err.Error(), httpapi.FieldError{
			Code: "parts", Rule: "must be larger parts: 65,536 may have less than 512 KiB",
		})
	case errors.Is(err, uploads.ErrStopped):
		err = httpapi.NewProblem(http.StatusRequestTimeout, "the file gave no sign for too long; send it again")
	default:
		err = endpoint.Problem(h.log, err)
	}
	var told *httpapi.Problem
	if !errors.As(err, &told) {
		told = httpapi.Internal(err)
	}
	return told
}

// abandon has what there is of a file deleted, also when the caller has gone.
func (h *Handler) abandon(id uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := h.store.Abandon(ctx, id); err != nil {
		h.log.Warn("an upload that was given up is swept away later", "error", err)
	}
}

// incoming is a file on its way.
type incoming struct {
	h     *Handler
	ctx   context.Context
	conn  *http.ResponseController
	id    uuid.UUID
	form  form
	begun time.Time
	sniff tabular.Sniffer
	file  *uploads.Received
}

// bodyError is an error of the body, and none of ours.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "read the body: " + e.err.Error() }

// read reads all parts of the form.
func (in *incoming) read(parts *multipart.Reader) (uploads.Received, error) {
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return uploads.Received{}, &bodyError{err}
		}
		if err := in.part(part); err != nil {
			return uploads.Received{}, err
		}
	}
	return in.received()
}

func (in *incoming) part(part *multipart.Part) error {
	name := part.FormName()
	switch {
	case slices.Contains(in.form.seen, name):
		return problem(name, "twice", "must be there once")
	case name == "file":
		in.form.seen = append(in.form.seen, name)
		return in.take(part)
	}
	in.form.seen = append(in.form.seen, name)
	text, err := io.ReadAll(io.LimitReader(part, maxField+1))
	if err != nil {
		return &bodyError{err}
	}
	if len(text) > maxField {
		return problem(name, "length", fmt.Sprintf("must be at most %d bytes", maxField))
	}
	in.form.set(name, string(text))
	if name == "processor" {
		err = in.h.store.CheckProcessor(in.ctx, in.form.processor)
	}
	if errors.Is(err, uploads.ErrProcessor) {
		in.form.wrong(name, "processor", uploadsapi.ProcessorRule)
		return nil
	}
	return err
}

// take stores the file.
func (in *incoming) take(part *multipart.Part) error {
	if len(in.form.errs) > 0 { // a field before the file breaks a rule, so the file is not read
		return in.form.problem()
	}
	in.file = &uploads.Received{FileName: part.FileName()}
	from := &paced{from: part, conn: in.conn, begun: in.begun, told: time.Now(), sign: func() error {
		return in.h.sign(in.ctx, in.id)
	}}
	stored, err := in.h.files.Put(in.ctx, in.id, in.h.store.Limits().File, io.TeeReader(from, &in.sniff))
	if from.err != nil {
		return &bodyError{from.err}
	}
	if err != nil {
		return err
	}
	in.file.Size, in.file.SHA256 = stored.Size, stored.SHA256[:]
	return nil
}

// received puts together what is known when all parts are read.
func (in *incoming) received() (r uploads.Received, err error) {
	if in.file == nil {
		return r, problem("file", "required", "is required")
	}
	return in.form.received(*in.file, &in.sniff)
}

// received puts together what is known of a file.
func (f *form) received(file uploads.Received, sniff *tabular.Sniffer) (uploads.Received, error) {
	r, encoding, delimiter, err := f.check(file)
	if err == nil {
		r.Format, err = sniff.Sniff(r.FileName, f.format, encoding, delimiter)
	}
	var table *tabular.ErrTable
	if errors.As(err, &table) {
		f.wrong("file", "format", table.Text)
		err = f.problem()
	}
	return r, err
}

// check returns what is known of a file before its bytes are read.
func (f *form) check(r uploads.Received) (_ uploads.Received, encoding string, delimiter byte, err error) {
	encoding, delimiter, errs := uploadsapi.Reading{Encoding: f.encoding, Delimiter: f.delimiter}.Check()
	for _, err := range errs {
		f.errs = append(f.errs, err.(httpapi.FieldError)) //nolint:errorlint // they are
	}
	r.FileName = path.Base(strings.ReplaceAll(r.FileName, "\\", "/"))
	if r.FileName == "." || r.FileName == "/" {
		r.FileName = ""
	}
	if !plain(r.FileName) {
		f.wrong("file", "name", "must have a name of at most 255 characters, without control characters")
	}
	f.name = cmp.Or(f.name, r.FileName)
	if len(f.errs) > 0 {
		return r, "", 0, f.problem()
	}
	r.Name, r.Processor, r.Mapping, r.Hold = f.name, f.processor, f.mapping, f.hold
	return r, encoding, delimiter, nil
}

// set takes a field.
func (f *form) set(name, value string) {
	switch name {
	case "processor":
		f.processor = value
	case "name":
		if f.name = value; !plain(value) {
			f.wrong(name, "name", "must be at most 255 characters, without control characters")
		}
	case "mapping":
		f.setMapping(value)
	case "format":
		if f.format = value; value != "" && !slices.Contains(tabular.Kinds, value) {
			f.wrong(name, "format", "must be one of "+strings.Join(tabular.Kinds, ", "))
		}
	case "encoding":
		f.encoding = value
	case "delimiter":
		f.delimiter = value
	case "hold":
		if value == "" {
			return
		}
		hold, err := strconv.ParseBool(value)
		if err != nil {
			f.wrong(name, "boolean", "must be true or false")
		}
		f.hold = f.hold || hold
	default:
		f.wrong(name, "field_unknown", "is not a field here: there are "+cmp.Or(f.more, "file")+
			", processor, name, mapping, format, encoding, delimiter and hold")
	}
}

func (f *form) setMapping(value string) {
	var fields map[string]string
	if value == "" {
		return
	}
	if err := json.Unmarshal([]byte(value), &fields); err != nil || fields == nil {
		f.wrong("mapping", "mapping", "must be a JSON object whose members are texts")
		return
	}
	if !plainMapping(fields) {
		f.wrong("mapping", "mapping", mappingRule)
		return
	}
	f.mapping = fields
}

const mappingRule = "must have names of at most 255 characters, without control characters"

func plainMapping(fields map[string]string) bool {
	for field, column := range fields {
		if !plain(field) || !plain(column) {
			return false
		}
	}
	return true
}

// plain tells of a text that may be a name.
func plain(text string) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= 255 && !strings.ContainsFunc(text, unicode.IsControl)
}

func (f *form) wrong(field, code, rule string) {
	f.errs = append(f.errs, httpapi.FieldError{Field: field, Code: code, Rule: rule})
}

func (f *form) problem() *httpapi.Problem {
	return httpapi.NewProblem(http.StatusBadRequest, cmp.Or(f.what, "the form")+" breaks a rule", f.errs...)
}

func problem(field, code, rule string) *httpapi.Problem {
	f := form{}
	f.wrong(field, code, rule)
	return f.problem()
}

// paced reads a file as fast as it comes, and no slower than it may.
type paced struct {
	from  io.Reader
	conn  *http.ResponseController
	begun time.Time
	told  time.Time    // when the file last gave a sign
	sign  func() error // that it is still coming in
	bytes int64
	err   error // other than io.EOF
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	until := p.begun.Add(grace + time.Duration(float64(p.bytes)/leastRate*float64(time.Second)))
	if idle := time.Now().Add(grace); idle.Before(until) {
		until = idle
	}
	_ = p.conn.SetReadDeadline(until) // a test's recorder has none
	n, err := p.from.Read(b)
	p.bytes += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
		return n, err
	}
	if err == nil && time.Since(p.told) > sign {
		p.told = time.Now()
		err = p.sign()
	}
	return n, err
}
