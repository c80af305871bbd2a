package uploads

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	tus "github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
)

const tusPath = "/uploads/tus"

// tusRefused are headers of extensions that there are not. Whoever sends one relies on it.
var tusRefused = map[string]string{
	"Upload-Concat":       "must not be there: a file is sent as one upload",
	"Upload-Defer-Length": "must not be there: Upload-Length has to be known",
	"Upload-Checksum":     "must not be there: sha256 in Upload-Metadata is that of the whole file",
}

// newTus returns the protocol of resumable uploads.
func (h *Handler) newTus() (*tus.UnroutedHandler, error) {
	store := &tusStore{h: h}
	composer := tus.NewStoreComposer()
	composer.UseCore(store)
	composer.UseTerminater(store)
	protocol, err := tus.NewUnroutedHandler(tus.Config{
		StoreComposer: composer, MaxSize: h.store.Limits().File, BasePath: "/", Cors: &tus.CorsConfig{Disable: true},
		// Errors of ours are logged where they become problems, and those of callers are told to them.
		Logger:         slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1})),
		NetworkTimeout: tusPatience, GracefulRequestCompletionTimeout: time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("resumable uploads: %w", err)
	}
	return protocol, nil
}

// registerTus adds the routes of resumable uploads.
func (h *Handler) registerTus(s *httpapi.Server) {
	for _, r := range h.tusOperations(s, h.tus) {
		r.op.Tags, r.op.Security = []string{"Uploads"}, uploadsapi.Security()
		s.Handle(&r.op, h.tusServe(h.tus.Middleware(r.do)), h.auth.Require(auth.Uploads), h.named,
			httpapi.LimitBody(h.store.Limits().File))
	}
}

// tusPatience bounds what is done with a file behind its last byte: it is read once more.
const tusPatience = 5 * time.Minute

type tusRoute struct {
	op huma.Operation
	do http.HandlerFunc
}

func (h *Handler) tusOperations(s *httpapi.Server, protocol *tus.UnroutedHandler) []tusRoute {
	answers := func(status, text string, more ...int) map[string]*huma.Response {
		return s.Problems(map[string]*huma.Response{status: {Description: text}}, append(more, 400, 401, 403, 412, 500, 503)...)
	}
	header := func(name, text string, required bool) *huma.Param {
		return &huma.Param{Name: name, In: "header", Description: text, Required: required, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	version := header("Tus-Resumable", "1.0.0", true)
	part := func(required bool) *huma.RequestBody {
		return &huma.RequestBody{Required: required, Content: map[string]*huma.MediaType{
			"application/offset+octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}}
	}
	one := tusPath + "/{jobId}"
	return []tusRoute{
		{huma.Operation{
			OperationID: "tus-options", Method: http.MethodOptions, Path: tusPath, Summary: "What of tus there is",
			Responses: answers("200", "Tus-Version, Tus-Extension and Tus-Max-Size say so"),
		}, http.NotFound},
		{huma.Operation{
			OperationID: "tus-create", Method: http.MethodPost, Path: tusPath, Summary: "Begin a resumable upload",
			Description: "The protocol is tus 1.0.0, with creation, creation-with-upload, termination and expiration. " +
				"Location names the upload; its last part is the jobId. " +
				fmt.Sprintf("What is not continued within %s is deleted.", h.store.Limits().Parts),
			Parameters: []*huma.Param{
				version, header("Upload-Length", "Bytes of the file", true),
				header("Upload-Metadata", "filename, and processor, name, mapping, format, encoding, delimiter and hold as in the "+
					"form; sha256 of the file, in hexadecimal digits: another one is refused when all of it has come in", false),
			},
			RequestBody: part(false), Responses: answers("201", "It has begun", 408, 409, 413, 415),
		}, protocol.PostFile},
		{huma.Operation{
			OperationID: "tus-offset", Method: http.MethodHead, Path: one, Summary: "How much of a file has come in",
			Description: "Upload-Offset says so. Where that is all of it, the upload is there, also when the last answer was lost.",
			Parameters:  []*huma.Param{uploadsapi.PathParam()},
			Responses:   answers("200", "Upload-Offset, Upload-Length, Upload-Metadata and Upload-Expires", 404, 409),
		}, protocol.HeadFile},
		{huma.Operation{
			OperationID: "tus-append", Method: http.MethodPatch, Path: one, Summary: "Send the next part of a file",
			Description: "Bytes that were acknowledged are on disk, as with any file. Of several requests at once one goes on.",
			Parameters: []*huma.Param{
				uploadsapi.PathParam(), version, header("Upload-Offset", "How much has come in, as HEAD says", true),
			},
			RequestBody: part(true), Responses: answers("204", "It is stored. Upload-Offset says how much there is", 404, 408, 409, 413, 415),
		}, protocol.PatchFile},
		{huma.Operation{
			OperationID: "tus-delete", Method: http.MethodDelete, Path: one, Summary: "Give a resumable upload up",
			Parameters: []*huma.Param{uploadsapi.PathParam(), version},
			Responses:  answers("204", "It is deleted", 404, 409),
		}, protocol.DelFile},
	}
}

// tusServe prepares a request for the protocol, and its answer for the caller.
func (h *Handler) tusServe(protocol http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const part = "application/offset+octet-stream"
		if kind := r.Header.Get("Content-Type"); kind != "" && kind != part && r.Method == http.MethodPost {
			httpapi.WriteProblem(w, httpapi.UnsupportedType(kind, part))
			return
		}
		f := form{what: "the request"}
		for name, rule := range tusRefused {
			if r.Header.Get(name) != "" {
				f.wrong(name, "unsupported", rule)
			}
		}
		if len(f.errs) == 0 && r.Method == http.MethodPost {
			f = h.tusForm(r)
		}
		if len(f.errs) > 0 {
			httpapi.WriteProblem(w, f.problem())
			return
		}
		r.Header.Del("X-HTTP-Method-Override")
		answer := &tusAnswer{ResponseWriter: w}
		r = r.WithContext(context.WithValue(r.Context(), tusAnswerKey{}, answer))
		at := *r.URL
		at.Path = "/" + httpapi.PathParam(r, "jobId")
		r.URL = &at
		r.Body = &tusBody{r.Body, &paced{
			from: r.Body, conn: http.NewResponseController(w), begun: time.Now(), told: time.Now(),
			sign: func() error { return h.tusSign(r.Context(), at.Path[1:]) },
		}}
		protocol.ServeHTTP(answer, r)
		answer.end()
	})
}

// tusBody is a body that is read no slower than it may come.
type tusBody struct {
	io.Closer
	*paced
}

// tusForm returns what a request says of its file, with the rules that it breaks.
func (h *Handler) tusForm(r *http.Request) form {
	f := form{what: "Upload-Metadata"}
	metadata := f.parseMetadata(r.Header.Values("Upload-Metadata"))
	said, file, _ := formOf(metadata)
	f.errs = append(f.errs, said.errs...)
	if err := h.store.CheckProcessor(r.Context(), said.processor); err != nil && len(f.errs) == 0 {
		problem := h.problem(err)
		if problem.Status != http.StatusBadRequest {
			return f // to begin an upload says so, too
		}
		f.errs = append(f.errs, problem.Errors...)
	}
	if _, _, _, err := said.check(file); err != nil {
		f.errs = said.errs
	}
	return f
}
