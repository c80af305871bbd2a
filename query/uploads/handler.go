package uploads

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/metric"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/instant"
)

// Deps are what the handler works with. All of them are needed, and it closes none.
type Deps struct {
	Store    *uploads.Store
	Files    *uploads.Files
	Auth     *auth.Auth
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Config shapes the handler.
type Config struct {
	Temp    string // folder for temporary files; empty: that of the system
	Pending bool   // /pending answers
}

// Handler answers the reads.
type Handler struct {
	Deps
	cfg        Config
	durations  *prometheus.HistogramVec
	downloads  *reads.Places
	exports    *reads.Places
	previewing *reads.Places
}

// New returns the handler; Register puts it on a server.
func New(cfg Config, deps Deps) (*Handler, error) {
	if deps.Store == nil || deps.Files == nil || deps.Auth == nil || deps.Registry == nil || deps.Log == nil {
		return nil, errors.New("upload reads: the state, files, authentication, a registry and a logger are needed")
	}
	h := &Handler{
		Deps: deps, cfg: cfg, downloads: reads.NewPlaces("downloads of files", 8, 4),
		exports: reads.NewExportPlaces(), previewing: reads.NewPlaces("previews", 2, 1),
	}
	h.durations = metric.Histograms("millrace_uploads_query_duration_seconds",
		"Time to read a file of an upload, by endpoint. Other reads are in millrace_http_request_duration_seconds.",
		[]float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600}, "endpoint")
	if err := deps.Registry.Register(h.durations); err != nil {
		return nil, err
	}
	return h, nil
}

// Register adds the routes, for callers with the scope uploads or work.
func (h *Handler) Register(api endpoint.API) {
	srv := api.Server
	api = api.At("/uploads", "Uploads")
	api.Known = uploadsapi.Known
	read := func(id, path, summary, text string) endpoint.Operation {
		return endpoint.Operation{ID: id, Path: path, Summary: summary, Text: text, Scope: auth.Uploads}
	}
	endpoint.Get(api, read("list-uploads", "", "Uploads, the newest first", ""), h.list)
	endpoint.Get(api, read("get-upload", "/{jobId}", "An upload", ""), h.one)
	endpoint.Get(api, read("list-upload-items", "/{jobId}/items", "Items of an upload", itemsText), h.items)
	endpoint.Get(api, read("list-rejected-rows", "/{jobId}/rejected",
		"Rows of an upload that break a rule, with their lines", ""), h.rejected)
	endpoint.Get(api, read("preview-upload", "/{jobId}/preview", "The first 50 rows of an upload's file",
		"As encoding and delimiter have them. Nothing is changed: resume takes both."), h.preview)
	h.registerExports(api, read)
	if h.cfg.Pending {
		api.Base = ""
		endpoint.Get(api, read("list-pending-items", "/pending", "Items of all uploads", pendingText), h.pending)
	}
	h.registerFile(srv)
}

// ListUploadsRequest are the parameters of a list.
type ListUploadsRequest struct {
	httpapi.Params
	QueueState string `query:"queue_state" enum:"QUEUED,RUNNING,PAUSED,DONE,FAILED" doc:"Only uploads in this state"`
	Processor  string `query:"processor" maxLength:"255" doc:"Only uploads with this processor"`
	User       string `query:"user" maxLength:"1024" doc:"Only uploads of this user; others than your own are for admins"`
	Limit      int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many a page has at most"`
	Cursor     string `query:"cursor" doc:"next_cursor of the page before, with the same filters"`
	after      *uploads.Place
}

var (
	uploadCursor = reads.Convert(reads.Pairs("uploads"), func(p uploads.Place) reads.Pair {
		return reads.Pair{uint64(p.At.UnixMicro()), uint64(p.No)}
	}, func(p reads.Pair) (at uploads.Place, ok bool) {
		t, err := instant.FromMicro(int64(p[0]))
		return uploads.Place{At: t, No: int32(p[1])}, err == nil && p[1] <= math.MaxInt32
	})
	rejectCursor = reads.Pairs("rejected rows of an upload")
)

// Resolve implements huma.Resolver.
func (r *ListUploadsRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	for field, text := range map[string]string{"processor": r.Processor, "user": r.User} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			errs = append(errs, httpapi.FieldError{Field: field, Code: "utf8", Rule: "must be valid UTF-8 without NUL"})
		}
	}
	if r.Cursor != "" {
		r.after = new(uploads.Place)
	}
	return append(errs, endpoint.Faults(uploadCursor.Read(r.Cursor, r.after))...)
}

func badCursor(field, of string) httpapi.FieldError {
	return httpapi.FieldError{Field: field, Code: "cursor", Rule: "must be " + of + " of the page before"}
}

// UploadPage is a page of uploads.
type UploadPage struct {
	reads.List[uploadsapi.Upload]
}

func (h *Handler) list(ctx context.Context, in *ListUploadsRequest) (UploadPage, error) {
	f := uploads.Filter{State: in.QueueState, Processor: in.Processor}
	who := uploadsapi.ViewerFrom(ctx)
	page := UploadPage{reads.List[uploadsapi.Upload]{Items: []uploadsapi.Upload{}}}
	if in.User != "" {
		if f.Owner = &in.User; !who.All && in.User != who.Subject {
			return page, nil
		}
	}
	all, err := h.Store.List(ctx, who, f, in.after, in.Limit+1)
	if err != nil {
		return page, err
	}
	all, page.NextCursor = reads.Cut(uploadCursor, all, in.Limit, func(j uploads.Job) uploads.Place {
		return uploads.Place{At: j.CreatedAt, No: j.No}
	})
	for _, j := range all {
		page.Items = append(page.Items, uploadsapi.UploadOf(j))
	}
	return page, nil
}

// UploadRequest names an upload.
type UploadRequest struct{ uploadsapi.UploadID }

func (h *Handler) job(ctx context.Context, id uploadsapi.UploadID) (uploads.Job, error) {
	return h.Store.Get(ctx, uploadsapi.ViewerFrom(ctx), id.UUID())
}

func (h *Handler) one(ctx context.Context, in *UploadRequest) (uploadsapi.Upload, error) {
	j, err := h.job(ctx, in.UploadID)
	return uploadsapi.UploadOf(j), err
}

// rejectPlace is the place of a rejected row behind a cursor: the first 8 bytes of the id, and the row.
func rejectPlace(j uploads.Job) uint64 { return binary.BigEndian.Uint64(j.ID[8:]) }
