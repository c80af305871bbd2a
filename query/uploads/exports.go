package uploads

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
	"github.com/millrace-io/millrace/query/reads"
)

// exportWait is how long a request for the file of an export waits until it is DONE.
const exportWait = 10 * time.Second

// exportLook is how often it looks.
const exportLook = 100 * time.Millisecond

// UploadExports are the exports of an upload.
type UploadExports struct {
	Items []uploadsapi.UploadExport `json:"items" nullable:"false"`
}

func (h *Handler) listExports(ctx context.Context, in *UploadRequest) (UploadExports, error) {
	out := UploadExports{Items: []uploadsapi.UploadExport{}}
	all, err := h.Store.Exports(ctx, uploadsapi.ViewerFrom(ctx), in.UUID())
	for _, e := range all {
		out.Items = append(out.Items, uploadsapi.ExportOf(e, "exports/"))
	}
	return out, err
}

// UploadExportRequest names an export.
type UploadExportRequest struct {
	uploadsapi.UploadID
	uploadsapi.ExportID
}

func (h *Handler) oneExport(ctx context.Context, in *UploadExportRequest) (uploadsapi.UploadExport, error) {
	e, err := h.Store.Export(ctx, uploadsapi.ViewerFrom(ctx), in.UUID(), in.Export())
	return uploadsapi.ExportOf(e, ""), err
}

// exportFile is the file of an export. It waits for one that is nearly made, so that callers need not ask twice.
func (h *Handler) exportFile(ctx context.Context, in UploadExportRequest) (reads.File, error) {
	e, err := h.exported(ctx, in)
	if err != nil {
		return reads.File{}, err
	}
	t := resultFile{upload: e.Job}.table()
	file := t.File(reads.Format{Format: e.Format}, e.CreatedAt, nil)
	file.Write = copied(func(ctx context.Context) (io.ReadCloser, error) { return h.Files.OpenExport(ctx, e) })
	return file, nil
}

// exported returns the export once it is DONE.
func (h *Handler) exported(ctx context.Context, in UploadExportRequest) (uploads.Export, error) {
	look := time.NewTicker(exportLook)
	defer look.Stop()
	for end := time.Now().Add(exportWait); ; {
		e, err := h.Store.Export(ctx, uploadsapi.ViewerFrom(ctx), in.UUID(), in.Export())
		switch {
		case err != nil || e.State == uploads.ExportDone:
			return e, err
		case e.State == uploads.ExportFailed:
			rule := "the export is FAILED"
			if e.LastError != nil {
				rule += ": " + *e.LastError
			}
			return e, httpapi.NewProblem(http.StatusConflict, rule, httpapi.FieldError{Field: "state", Code: "state", Rule: rule})
		case time.Now().After(end):
			return e, httpapi.NewProblem(http.StatusServiceUnavailable, fmt.Sprintf(
				"the export is %s: %d of %d rows are written; ask again", e.State, e.Rows, e.Total)).WithHeader("Retry-After", "5")
		}
		select {
		case <-ctx.Done():
			return e, context.Cause(ctx)
		case <-look.C:
		}
	}
}

func (h *Handler) registerExports(api endpoint.API, read func(id, path, summary, text string) endpoint.Operation) {
	endpoint.Get(api, read("list-upload-exports", "/{jobId}/exports", "Exports of an upload that have not expired",
		"The newest first."), h.listExports)
	endpoint.Get(api, read("show-upload-export", "/{jobId}/exports/{exportId}", "An export, and how far it is", ""), h.oneExport)
}
