package uploads

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	tus "github.com/tus/tusd/v2/pkg/handler"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue/queueapi"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/references"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// Handler answers the commands.
type Handler struct {
	store *uploads.Store
	files *uploads.Files
	feed  *uploads.Feeder
	auth  *auth.Auth
	log   *slog.Logger

	bounds   schema.Bounds // of batches
	kickoffs chan struct{} // as many as there are under way
	images   chan struct{} // as many as are being sent
	tus      *tus.UnroutedHandler

	references *references.Opener // nil: requests send files
}

// New returns the handler; Register puts it on a server. The bounds are those of batches in slices that
// callers ask for.
func New(
	bounds schema.Bounds, store *uploads.Store, files *uploads.Files, feed *uploads.Feeder, a *auth.Auth, log *slog.Logger,
) (*Handler, error) {
	if store == nil || files == nil || feed == nil || a == nil || log == nil {
		return nil, errors.New("upload commands: the state, files, the feeder, authentication and a logger are needed")
	}
	bounds, err := bounds.WithDefaults()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		store: store, files: files, feed: feed, auth: a, log: log, bounds: bounds, kickoffs: make(chan struct{}, maxKickoffs),
		images: make(chan struct{}, maxImages),
	}
	h.tus, err = h.newTus()
	return h, err
}

// Register adds the routes, for callers with the scope uploads or work.
func (h *Handler) Register(api endpoint.API) {
	h.registerReceive(api.Server)
	h.registerTus(api.Server)
	api = api.At("/uploads", "Uploads")
	api.Known = uploadsapi.Known
	command := func(id, path, summary, text string) endpoint.Operation {
		return endpoint.Operation{ID: id, Path: path, Summary: summary, Text: text, Scope: auth.Uploads}
	}
	endpoint.Post(api, command("pause-upload", "/{jobId}/pause", "Pause an upload",
		"Nothing more is persisted, processed or handed out until it is resumed. What workers have goes on. The body may "+
			"be left out.").WithoutBody(), h.switched(h.store.Pause, h.feed.Withdraw))
	endpoint.Post(api, command("resume-upload", "/{jobId}/resume", "Resume an upload",
		"encoding and delimiter say how its file is read, where none of its rows is persisted yet; preview shows what "+
			"they make of it. mapping replaces that of the upload. The body may be left out.").WithoutBody(), h.resume)
	endpoint.Post(api, command("cancel-upload", "/{jobId}/cancel", "Cancel an upload",
		"Items without a final status become SKIPPED, and rows that are not persisted never are. Then the upload is DONE. "+
			"The body may be left out.").WithoutBody(), h.switched(h.store.Cancel, h.feed.CancelItems))
	endpoint.Post(api, command("kickoff-upload", "/{jobId}/kickoff", "Process items of an upload now",
		"Runs a slice of the work that is done in the background as well, and says what it did: up to 20 seconds, one "+
			"slice of an upload at a time.").WithoutBody(), h.kickoff)
	endpoint.Post(api, command("reprocess-upload", "/{jobId}/reprocess", "Process items of an upload again",
		"Those that are ERROR or NOT_FOUND and have attempts left become PENDING, and the upload goes on; of a paused one, "+
			"when it is resumed. The body may be left out. It ends at 1,000,000 items or 15 seconds, and says that there may be "+
			"more.").WithoutBody(), h.reprocess)
	input := command("get-upload-input", "/{jobId}/inputs/{rowNo}", "The input of an item that a worker has",
		"Where input_link in the payload of an item leads: its row, which is too large for the payload. The link answers while "+
			"the item is PROCESSING.")
	endpoint.Get(api, input, h.input)
	h.registerImages(api)
	exported := command("export-upload", "/{jobId}/export", "Have a file made of all results of an upload",
		"It is made in the background, of the items that are DONE when that begins. GET /uploads/{jobId}/exports/{exportId} "+
			"shows how far it is. The link answers with the file until it expires. The body may be left out.").WithoutBody()
	exported.Status = http.StatusAccepted
	endpoint.Post(api, exported, h.export)
	endpoint.DeleteNoContent(api, command("delete-upload-export", "/{jobId}/exports/{exportId}", "Delete an export",
		"One that is being made ends."), h.dropExport)
	endpoint.DeleteNoContent(api, command("delete-upload", "/{jobId}", "Delete an upload with all that it has",
		"Nobody sees it any more. Its rows and its file are deleted in the background."), h.remove)
}

// SwitchUploadRequest is a command that says all in its path.
type SwitchUploadRequest struct {
	uploadsapi.UploadID
	Body *queueapi.NoMembers
}

// switched changes an upload, and then its items in a queue.
func (h *Handler) switched(
	do func(context.Context, uploads.Viewer, uuid.UUID) (uploads.Job, error), items func(context.Context, uploads.Job) error,
) func(context.Context, *SwitchUploadRequest) (uploadsapi.Upload, error) {
	return func(ctx context.Context, in *SwitchUploadRequest) (uploadsapi.Upload, error) {
		who := uploadsapi.ViewerFrom(ctx)
		j, err := do(ctx, who, in.UUID())
		if err == nil && j.Queued() {
			if err = items(ctx, j); err == nil {
				j, err = h.store.Get(ctx, who, in.UUID())
			}
		}
		return uploadsapi.UploadOf(j), err
	}
}

// ResumeUploadRequest has an upload go on.
type ResumeUploadRequest struct {
	uploadsapi.UploadID
	Body       *ResumedUpload
	encoding   string
	delimiter  byte
	someFormat bool
}

// ResumedUpload says how the file is read.
type ResumedUpload struct {
	Encoding  string `json:"encoding,omitempty" doc:"Default: as it was found out" example:"windows-1252"`
	Delimiter string `json:"delimiter,omitempty" doc:"Default: as it was found out" example:";"`

	Mapping map[string]string `json:"mapping,omitempty" doc:"Names of columns by field. title, brand and sku summarize items. Default: as it was"`
}

// Resolve implements huma.Resolver.
func (r *ResumeUploadRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	var wrong []error
	if r.Body == nil {
		return errs
	}
	r.encoding, r.delimiter, wrong = uploadsapi.Reading{Encoding: r.Body.Encoding, Delimiter: r.Body.Delimiter}.Check()
	r.someFormat = r.encoding != "" || r.delimiter != 0
	if !plainMapping(r.Body.Mapping) {
		wrong = append(wrong, httpapi.FieldError{Field: "mapping", Code: "mapping", Rule: mappingRule})
	}
	return append(errs, wrong...)
}

func (h *Handler) resume(ctx context.Context, in *ResumeUploadRequest) (uploadsapi.Upload, error) {
	who := uploadsapi.ViewerFrom(ctx)
	var format *tabular.Format
	if in.someFormat {
		j, err := h.store.Get(ctx, who, in.UUID())
		if err != nil {
			return uploadsapi.Upload{}, err
		}
		f, err := h.files.As(ctx, j, in.encoding, in.delimiter)
		if err != nil {
			return uploadsapi.Upload{}, err
		}
		format = &f
	}
	var mapping map[string]string
	if in.Body != nil {
		mapping = in.Body.Mapping
	}
	j, err := h.store.Resume(ctx, who, in.UUID(), format, mapping)
	return uploadsapi.UploadOf(j), err
}

// DeleteUploadRequest deletes an upload.
type DeleteUploadRequest struct{ uploadsapi.UploadID }

func (h *Handler) remove(ctx context.Context, in *DeleteUploadRequest) error {
	return h.store.Delete(ctx, uploadsapi.ViewerFrom(ctx), in.UUID())
}
