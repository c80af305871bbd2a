package uploads

import (
	"context"

	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
)

// ExportUploadRequest asks for a file of all results.
type ExportUploadRequest struct {
	uploadsapi.UploadID
	Format string `query:"format" enum:"csv,ndjson,ndjson.zst,xlsx,parquet" default:"csv"`
	Exact  bool   `query:"exact" doc:"CSV has no apostrophes before texts that a spreadsheet would take for a formula"`
}

func (h *Handler) export(ctx context.Context, in *ExportUploadRequest) (uploadsapi.UploadExport, error) {
	e, err := h.store.BeginExport(ctx, uploadsapi.ViewerFrom(ctx), in.UUID(), in.Format, in.Exact)
	return uploadsapi.ExportOf(e, "exports/"), err
}

// DropExportRequest deletes an export.
type DropExportRequest struct {
	uploadsapi.UploadID
	uploadsapi.ExportID
}

func (h *Handler) dropExport(ctx context.Context, in *DropExportRequest) error {
	return h.store.DropExport(ctx, uploadsapi.ViewerFrom(ctx), in.UUID(), in.Export())
}
