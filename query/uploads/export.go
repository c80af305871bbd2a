package uploads

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
	"github.com/millrace-io/millrace/query/reads"
)

// ExportUploadRequest asks for all results.
type ExportUploadRequest struct {
	uploadsapi.UploadID
	Format string `query:"format" enum:"csv,ndjson,ndjson.zst,xlsx,parquet" default:"csv" doc:"CSV as in RFC 4180, JSON lines, the same compressed by zstd, XLSX, all of whose cells are texts, or Parquet, all of whose columns are"`
	Exact  bool   `query:"exact" doc:"CSV has no apostrophes before texts that a spreadsheet would take for a formula"`
}

// exportedRow is a result as a line.
type exportedRow struct{ uploads.Result }

// MarshalJSON implements json.Marshaler.
func (r exportedRow) MarshalJSON() ([]byte, error) { return r.Object, nil }

// texts are the cells, and which of them have no value.
func (r exportedRow) texts() (texts []string, absent []bool) { return r.Cells, r.Absent }

func (h *Handler) export(ctx context.Context, in ExportUploadRequest) (reads.File, error) {
	j, err := h.job(ctx, in.UploadID)
	if err != nil {
		return reads.File{}, err
	}
	who, e := uploadsapi.ViewerFrom(ctx), resultFile{h.Store, j.ID, in.Format, in.Exact, h.cfg.Temp}
	t := e.table()
	file := t.File(reads.Format{Format: in.Format}, time.Now(), nil)
	file.Write = func(ctx context.Context, w io.Writer) error { return e.write(ctx, who, w, nil) }
	return file, nil
}

// resultFile is a file of the results of an upload.
type resultFile struct {
	store  *uploads.Store
	upload uuid.UUID
	format string
	exact  bool
	temp   string // folder for temporary files
}

func (f resultFile) guarded() bool { return f.format == "csv" && !f.exact }

// maxColumns is how many columns the format may have; 0: it has none.
func (f resultFile) maxColumns() int {
	switch f.format {
	case "csv", "xlsx":
		return uploads.MaxColumns
	case "parquet":
		return uploads.MaxIndexedColumns
	}
	return 0
}

func (f resultFile) table() reads.Table[exportedRow, struct{}] {
	return reads.Table[exportedRow, struct{}]{
		Name: "results-" + f.upload.String(), Temp: f.temp, Texts: exportedRow.texts,
		Cells: func(r exportedRow) ([]string, error) {
			if f.guarded() {
				return escaped(r.Cells), nil
			}
			return r.Cells, nil
		},
	}
}

// write writes the results of one snapshot. wrote is told how many rows are written of how many; it may be nil.
func (f resultFile) write(ctx context.Context, who uploads.Viewer, w io.Writer, wrote func(n, of int64)) error {
	if wrote == nil {
		wrote = func(int64, int64) {}
	}
	ctx, cancel := context.WithCancel(ctx) // what is not read is not waited for
	results, err := f.store.Results(ctx, who, f.upload, f.maxColumns())
	if err != nil {
		cancel()
		return err
	}
	defer results.Close()
	defer cancel()
	t := f.table()
	if t.Columns = results.Columns; f.guarded() {
		t.Columns = escaped(t.Columns)
	}
	n := int64(0)
	err = t.Write(ctx, f.format, w, func(context.Context) (page []exportedRow, more bool, err error) {
		wrote(n, results.Total())
		all, more, err := results.Next()
		n += int64(len(all))
		page = make([]exportedRow, 0, len(all))
		for _, r := range all {
			page = append(page, exportedRow{r})
		}
		return page, more, err
	})
	wrote(n, results.Total())
	return err
}

func escaped(cells []string) []string {
	out := make([]string, len(cells))
	for i, text := range cells {
		out[i] = tabular.EscapeCell(text)
	}
	return out
}
