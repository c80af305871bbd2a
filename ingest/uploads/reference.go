package uploads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/nearest"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/references"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// Refer lets requests name files instead of sending them.
func (h *Handler) Refer(to *references.Opener) { h.references = to }

// referenceSchema describes a request that names a file.
func referenceSchema(text func(string) *huma.Schema) *huma.Schema {
	mapping := &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString},
		Description: "Names of columns by field. title, brand and sku summarize items",
	}
	return &huma.Schema{
		Type: huma.TypeObject, Required: []string{"reference"}, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{
			"reference": text("s3://bucket/key, nats://bucket/key, file:///folder/name or ftp://user:password@host/path, as the server allows"),
			"processor": text("As in the form"), "name": text("As in the form"), "mapping": mapping,
			"format": text("As in the form"), "encoding": text("As in the form"), "delimiter": text("As in the form"),
			"hold": {Type: huma.TypeBoolean, Description: "As the parameter"},
		},
	}
}

// receiveReference makes an upload of a file that the body names.
func (h *Handler) receiveReference(w http.ResponseWriter, r *http.Request) {
	in := &incoming{h: h, ctx: r.Context(), conn: http.NewResponseController(w), begun: time.Now()}
	in.form.what, in.form.processor = "the body", schema.Copy
	in.form.set("hold", r.URL.Query().Get("hold"))
	reference, err := in.form.members(r.Body)
	if err == nil {
		err = h.store.CheckProcessor(r.Context(), in.form.processor)
	}
	if err != nil {
		h.refuse(w, err)
		return
	}
	caller := auth.CallerFrom(r.Context())
	if in.id, err = h.store.Begin(r.Context(), caller.Subject, httpapi.ClientFrom(r.Context()).String(), 0); err != nil {
		h.refuse(w, err)
		return
	}
	h.finish(w, in, func() (uploads.Received, error) {
		if err := in.fetch(reference, h.references.Open); err != nil {
			return uploads.Received{}, h.unreadable(err)
		}
		return in.received()
	})
}

var referenceMembers = []string{"reference", "processor", "name", "mapping", "format", "encoding", "delimiter", "hold"}

// members takes the members of a body, and returns the reference.
func (f *form) members(body io.Reader) (reference string, err error) {
	text, err := io.ReadAll(io.LimitReader(body, maxField+1))
	if err != nil {
		return "", &bodyError{err}
	}
	var members map[string]json.RawMessage
	if len(text) > maxField || json.Unmarshal(text, &members) != nil || members == nil {
		f.wrong("body", "json", "must be a JSON object of at most 64 KiB")
		return "", f.problem()
	}
	for name, value := range members {
		switch name {
		case "mapping":
			f.setMapping(string(value))
		case "hold":
			f.set(name, string(value))
		case "reference", "processor", "name", "format", "encoding", "delimiter":
			var member string
			if json.Unmarshal(value, &member) != nil {
				f.wrong(name, "type", "must be a text")
			} else if name == "reference" {
				reference = member
			} else {
				f.set(name, member)
			}
		default:
			f.wrong(name, "field_unknown", nearest.Unknown(name, referenceMembers))
		}
	}
	if reference == "" {
		f.wrong("reference", "required", "is required")
	}
	if len(f.errs) > 0 {
		return "", f.problem()
	}
	return reference, nil
}

// fetch stores the file that is named.
func (in *incoming) fetch(reference string, open func(context.Context, string) (*references.File, error)) error {
	ctx, cancel := context.WithCancel(in.ctx)
	defer cancel()
	from, err := open(ctx, reference)
	if err != nil {
		return err
	}
	defer from.Close()
	if from.Size > in.h.store.Limits().File {
		return uploads.ErrTooLarge
	}
	in.file = &uploads.Received{FileName: path.Base(strings.ReplaceAll(from.Name, "\\", "/"))}
	paced := &fetched{in: in, from: from, begun: time.Now(), told: time.Now()}
	stored, err := in.h.files.Put(ctx, in.id, in.h.store.Limits().File, io.TeeReader(paced, &in.sniff))
	if err == nil {
		in.file.Size, in.file.SHA256 = stored.Size, stored.SHA256[:]
	}
	return err
}

// fetched reads a file as fast as it comes, and no slower than a file that is sent may.
type fetched struct {
	in          *incoming
	from        io.Reader
	begun, told time.Time
	bytes       int64
}

// Read implements io.Reader.
func (f *fetched) Read(p []byte) (int, error) {
	if time.Since(f.begun) > grace+time.Duration(float64(f.bytes)/leastRate*float64(time.Second)) {
		return 0, uploads.ErrStopped
	}
	n, err := f.from.Read(p)
	f.bytes += int64(n)
	if err == nil && time.Since(f.told) > sign {
		f.told = time.Now()
		err = f.in.h.sign(f.in.ctx, f.in.id)
	}
	return n, err
}

// unreadable turns errors of a file that is named into what the caller is told.
func (h *Handler) unreadable(err error) error {
	var broken *references.Error
	switch {
	case errors.As(err, &broken):
		f := form{what: "the body"}
		f.wrong("reference", broken.Code, broken.Rule)
		return f.problem()
	case errors.Is(err, references.ErrChanged):
		rule := "must name a file that does not change while it is read: send the request again"
		return httpapi.NewProblem(http.StatusConflict, "the file changed while it was read, and nothing of it is kept",
			httpapi.FieldError{Field: "reference", Code: "changed", Rule: rule})
	case errors.Is(err, uploads.ErrTooLarge):
		rule := fmt.Sprintf("must name a file of at most %d bytes", h.store.Limits().File)
		return httpapi.NewProblem(http.StatusRequestEntityTooLarge, "the file is too large, and nothing of it is kept",
			httpapi.FieldError{Field: "reference", Code: "size", Rule: rule})
	case errors.Is(err, references.ErrAway):
		h.log.Warn("a file that was named cannot be read", "error", err)
		rule := "must name a file of a server that can be reached, and answers as it should"
		return httpapi.NewProblem(http.StatusServiceUnavailable, references.ErrAway.Error()+"; try again later",
			httpapi.FieldError{Field: "reference", Code: "away", Rule: rule}).WithHeader("Retry-After", "10")
	}
	return err
}
