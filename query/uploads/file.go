package uploads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
	"github.com/millrace-io/millrace/query/reads"
)

// fileWait bounds the wait for a place to read a file.
const fileWait = 20 * time.Second

// previewRows is how many rows a preview has.
const previewRows = 50

// PreviewUploadRequest says how a file is read.
type PreviewUploadRequest struct {
	uploadsapi.UploadID
	Encoding  string `query:"encoding" maxLength:"50" doc:"Default: that of the upload" example:"windows-1252"`
	Delimiter string `query:"delimiter" maxLength:"10" doc:"Default: that of the upload; tab is a tab" example:";"`
	encoding  string
	delimiter byte
}

// Resolve implements huma.Resolver.
func (r *PreviewUploadRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	var wrong []error
	r.encoding, r.delimiter, wrong = uploadsapi.Reading{Encoding: r.Encoding, Delimiter: r.Delimiter}.Check()
	return append(errs, wrong...)
}

// PreviewedRow is a row of a file.
type PreviewedRow struct {
	RowNo  int64    `json:"row_no"`
	Line   int64    `json:"line"`
	Cells  []string `json:"cells,omitempty" doc:"Of CSV and XLSX"`
	Object any      `json:"object,omitempty" doc:"Of JSON lines"`
	Error  string   `json:"error,omitempty" doc:"The rule that the row breaks"`
}

// UploadPreview is how a file begins.
type UploadPreview struct {
	Encoding  string         `json:"encoding"`
	Delimiter string         `json:"delimiter"`
	Header    []string       `json:"header" nullable:"false" doc:"Empty for JSON lines"`
	Rows      []PreviewedRow `json:"rows" nullable:"false"`
	Error     string         `json:"error,omitempty" doc:"Why the file cannot be read so, or not on"`
}

func (h *Handler) preview(ctx context.Context, in *PreviewUploadRequest) (UploadPreview, error) {
	out := UploadPreview{Header: []string{}, Rows: []PreviewedRow{}}
	j, err := h.job(ctx, in.UploadID)
	if err != nil {
		return out, err
	}
	leave, err := h.previewing.Enter(ctx)
	if err != nil {
		return out, err
	}
	defer leave()
	f, err := h.Files.As(ctx, j, in.encoding, in.delimiter)
	if err != nil {
		return out, err
	}
	out.read(f)
	rows, err := h.Files.Rows(ctx, j, f, h.cfg.Temp, math.MaxInt64)
	if err == nil {
		defer rows.Close()
		out.Header = append(out.Header, rows.Header()...)
		if found, ok := rows.(interface{ Format() tabular.Format }); ok { // of a zip, its metadata says it
			out.read(found.Format())
		}
		err = previewed(rows, &out)
	}
	var table *tabular.ErrTable
	if errors.As(err, &table) {
		out.Error = table.Text
		return out, nil
	}
	return out, err
}

// read says how the file is read.
func (p *UploadPreview) read(f tabular.Format) {
	if p.Encoding = f.Encoding; f.Delimiter != 0 {
		p.Delimiter = string(f.Delimiter)
	}
}

func previewed(rows tabular.Reader, out *UploadPreview) error {
	for size := 0; len(out.Rows) < previewRows && size < 1<<20; {
		row, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		shown := PreviewedRow{RowNo: row.No, Line: row.Line}
		switch {
		case row.Fault != nil:
			shown.Error = row.Fault.Text
		case row.Object != nil:
			shown.Object = json.RawMessage(bytes.Clone(row.Object))
			size += len(row.Object)
		default:
			shown.Cells = append([]string{}, row.Cells...)
			for _, cell := range row.Cells {
				size += len(cell)
			}
		}
		out.Rows = append(out.Rows, shown)
	}
	return nil
}

var exportTypes = reads.TypesOf("csv", "ndjson", "ndjson.zst", "xlsx", "parquet")

func (h *Handler) registerFile(srv *httpapi.Server) {
	api := endpoint.API{
		Server: srv, Auth: h.Auth, Log: h.Log, Tag: "Uploads", Limit: fileWait, Took: h.durations, Scope: auth.Uploads,
		Known: uploadsapi.Known,
	}
	reads.GetFile(api, h, "upload-file", "/uploads/{jobId}/file", "The original file of an upload, byte for byte",
		[]string{"application/octet-stream"}, h.downloads, h.file)
	reads.GetFile(api, h, "rejected-file", "/uploads/{jobId}/rejected/file", "All rejected rows of an upload",
		reads.ContentTypes(), h.downloads, h.rejectedFile)
	api.Errors = []int{http.StatusNotFound, http.StatusConflict}
	reads.GetFile(api, h, "upload-export", "/uploads/{jobId}/export", "The results of all items that are DONE",
		exportTypes, h.exports, h.export)
	reads.GetFile(api, h, "upload-export-file", "/uploads/{jobId}/exports/{exportId}/file", "The file of an export that is DONE",
		exportTypes, h.downloads, h.exportFile)
}

// rejectedRows is how rejected rows are written as a file.
var rejectedRows = reads.Table[RejectedRow, rejectedParquet]{
	Name: "rejected-rows", Columns: []string{"row_no", "line", "code", "error", "text", "bytes"},
	Cells: func(r RejectedRow) ([]string, error) {
		text := ""
		if r.Text != nil {
			text = tabular.EscapeCell(*r.Text)
		}
		return []string{
			strconv.Itoa(int(r.RowNo)), strconv.FormatInt(r.Line, 10), r.Code, tabular.EscapeCell(r.Error), text, r.Bytes,
		}, nil
	},
	Parquet: func(r RejectedRow) rejectedParquet { return rejectedParquet(r) },
}

// rejectedParquet is a rejected row in Parquet.
type rejectedParquet struct {
	RowNo int32   `parquet:"row_no"`
	Line  int64   `parquet:"line"`
	Code  string  `parquet:"code"`
	Error string  `parquet:"error"`
	Text  *string `parquet:"text,optional"`
	Bytes string  `parquet:"bytes"`
}

// RejectedFileRequest asks for all rejected rows.
type RejectedFileRequest struct {
	uploadsapi.UploadID
	reads.Format
}

func (h *Handler) rejectedFile(ctx context.Context, in RejectedFileRequest) (reads.File, error) {
	j, err := h.job(ctx, in.UploadID)
	if err != nil {
		return reads.File{}, err
	}
	after := int32(0)
	return rejectedRows.File(in.Format, time.Now(), func(ctx context.Context) (page []RejectedRow, more bool, err error) {
		all, err := h.Store.Rejects(ctx, j, after, rejectedPage)
		for _, r := range all {
			page, after = append(page, rejectedRow(r)), r.No
		}
		return page, len(all) == rejectedPage, err
	}), nil
}

// rejectedPage is how many rejected rows are read at once: each has up to 64 KiB.
const rejectedPage = 100

// UploadFileRequest asks for the original file.
type UploadFileRequest struct{ uploadsapi.UploadID }

func (h *Handler) file(ctx context.Context, in UploadFileRequest) (reads.File, error) {
	j, err := h.job(ctx, in.UploadID)
	if err != nil {
		return reads.File{}, err
	}
	name := j.FileName
	if name == "" {
		name = j.ID.String()
	}
	return reads.File{
		Name: name, ContentType: "application/octet-stream",
		Write: copied(func(ctx context.Context) (io.ReadCloser, error) { return h.Files.Open(ctx, j.ID) }),
	}, nil
}

// copied writes what is opened.
func copied(open func(context.Context) (io.ReadCloser, error)) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		from, err := open(ctx)
		if err != nil {
			return err
		}
		defer from.Close()
		_, err = io.Copy(w, from)
		return err
	}
}
