package uploads

import (
	"context"
	"io"
	"time"

	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
	"github.com/millrace-io/millrace/query/reads"
)

// ExportUploadRequest asks for all results.
type ExportUploadRequest struct {
	uploadsapi.UploadID
	Format string `query:"format" enum:"csv,ndjson,ndjson.zst,xlsx" default:"csv" doc:"CSV as in RFC 4180, JSON lines, the same compressed by zstd, or XLSX, all of whose cells are texts"`
	Exact  bool   `query:"exact" doc:"CSV has no apostrophes before texts that a spreadsheet would take for a formula"`
}

// exportedRow is a result as a line.
type exportedRow struct{ uploads.Result }

// MarshalJSON implements json.Marshaler.
func (r exportedRow) MarshalJSON() ([]byte, error) { return r.Object, nil }

func (h *Handler) export(ctx context.Context, in ExportUploadRequest) (reads.File, error) {
	j, err := h.job(ctx, in.UploadID)
	if err != nil {
		return reads.File{}, err
	}
	who, tabular := uploadsapi.ViewerFrom(ctx), in.Format == "csv" || in.Format == "xlsx"
	t := reads.Table[exportedRow, struct{}]{Name: "results-" + j.ID.String(), Temp: h.cfg.Temp}
	t.Cells = func(r exportedRow) ([]string, error) {
		if in.Format == "csv" && !in.Exact {
			return escaped(r.Cells), nil
		}
		return r.Cells, nil
	}
	file := t.File(reads.Format{Format: in.Format}, time.Now(), nil)
	file.Write = func(ctx context.Context, w io.Writer) error {
		ctx, cancel := context.WithCancel(ctx) // what is not read is not waited for
		results, err := h.Store.Results(ctx, who, j.ID, tabular)
		if err != nil {
			cancel()
			return err
		}
		defer results.Close()
		defer cancel()
		if t.Columns = results.Columns; in.Format == "csv" && !in.Exact {
			t.Columns = escaped(t.Columns)
		}
		return t.Write(ctx, in.Format, w, func(context.Context) (page []exportedRow, more bool, err error) {
			all, more, err := results.Next()
			for _, r := range all {
				page = append(page, exportedRow{r})
			}
			return page, more, err
		})
	}
	return file, nil
}

func escaped(cells []string) []string {
	out := make([]string, len(cells))
	for i, text := range cells {
		out[i] = tabular.EscapeCell(text)
	}
	return out
}
