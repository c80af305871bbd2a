package uploadsapi

import (
	"encoding/hex"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/uploads"
)

// ExportID is the path of an export behind that of its upload.
type ExportID struct {
	ExportID string `path:"exportId" maxLength:"64" doc:"The export's id" example:"0b8f2f0e-6a3c-4f0e-9a55-1d2c3b4a5f60"`
}

// Export returns the id. A text that is not an id names no export.
func (r ExportID) Export() uuid.UUID { return parse(r.ExportID) }

// UploadExport is a file of the results of an upload that is made in the background.
type UploadExport struct {
	ExportID   string     `json:"exportId" example:"0b8f2f0e-6a3c-4f0e-9a55-1d2c3b4a5f60"`
	JobID      string     `json:"jobId"`
	Format     string     `json:"format" enum:"csv,ndjson,ndjson.zst,xlsx,parquet"`
	Exact      bool       `json:"exact"`
	State      string     `json:"state" enum:"QUEUED,RUNNING,DONE,FAILED"`
	Rows       int64      `json:"rows" doc:"Written so far"`
	TotalRows  int64      `json:"total_rows" doc:"Rows that there are to write; 0 until it is known"`
	Link       string     `json:"link" doc:"Where the file is when it is DONE, relative to the address of this request; for the user of the upload alone, as the upload is" example:"exports/0b8f2f0e-6a3c-4f0e-9a55-1d2c3b4a5f60/file"`
	Size       int64      `json:"size" doc:"Bytes of the file, once it is DONE"`
	SHA256     string     `json:"sha256" doc:"Of the file, in hexadecimal digits, once it is DONE"`
	LastError  *string    `json:"last_error" doc:"Why it is FAILED, or is tried again"`
	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at"`
	ExpiresAt  *time.Time `json:"expires_at" doc:"When the file is deleted, once the export is DONE or FAILED"`
}

// ExportOf is what an export looks like to a request at whose address the exports of the upload are at a path.
func ExportOf(e uploads.Export, path string) UploadExport {
	return UploadExport{
		ExportID: e.ID.String(), JobID: e.Job.String(), Format: e.Format, Exact: e.Exact, State: e.State, Rows: e.Rows,
		TotalRows: e.Total, Link: path + e.ID.String() + "/file", Size: e.Size, SHA256: hex.EncodeToString(e.SHA256),
		LastError: e.LastError, CreatedAt: At(e.CreatedAt), FinishedAt: utc(e.FinishedAt), ExpiresAt: utc(e.ExpiresAt),
	}
}
