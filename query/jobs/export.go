package jobs

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

var typeOf = map[string]string{
	sources.CSV: "text/csv; charset=utf-8", sources.JSONL: "application/x-ndjson",
	sources.OPML: "text/x-opml; charset=utf-8",
}

func (h *Handler) registerExport(api endpoint.API) {
	text := func(values ...any) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Enum: values} }
	content := map[string]*huma.MediaType{}
	for _, kind := range typeOf {
		kind, _, _ = strings.Cut(kind, ";")
		content[kind] = &huma.MediaType{Schema: text()}
	}
	srv := api.Server
	srv.Handle(&huma.Operation{
		OperationID: "export-sources", Method: http.MethodGet, Path: "/sources/export", Tags: []string{"Sources"},
		Summary:     "Sources as a list that can be imported",
		Description: "With the filters of the list. What is made while it is being written may be in it or not.",
		Security:    auth.Security(auth.Read),
		Parameters: []*huma.Param{
			{Name: "format", In: "query", Required: true, Schema: text(sources.OPML, sources.CSV, sources.JSONL)},
			{Name: "q", In: "query", Schema: text()},
			{Name: "enabled", In: "query", Schema: text("true", "false")},
			{Name: "priority", In: "query", Schema: text("low", "normal", "high", "critical")},
			{Name: "job_status", In: "query", Schema: text("pending", "running", "paused", "failed", "orphaned")},
			{Name: "health", In: "query", Schema: text("healthy", "warning", "failed", "unknown")},
		},
		Responses: srv.Problems(map[string]*huma.Response{"200": {Description: "The list", Content: content}}, 400, 401,
			403, 503),
	}, h.serveExport(api), api.Auth.Require(auth.Read))
}

// exportPage is how many sources are read at once.
const exportPage = 1000

func (h *Handler) serveExport(api endpoint.API) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		format := query.Get("format")
		selection := sources.SourceFilter{
			Q: query.Get("q"), Enabled: query.Get("enabled"), Priority: query.Get("priority"),
			Job: query.Get("job_status"), Health: query.Get("health"),
		}
		broken := selection.Check()
		for _, c := range []struct {
			field, value string
			known        []string
		}{
			{"format", format, sources.ListFormats},
			{"enabled", selection.Enabled, []string{"", "true", "false"}},
			{"priority", selection.Priority, append([]string{""}, source.Priorities...)},
			{"job_status", selection.Job, append([]string{""}, job.Statuses...)},
			{"health", selection.Health, []string{"", job.Healthy, job.Warning, job.Failed, job.Unknown}},
		} {
			if !slices.Contains(c.known, c.value) {
				rule := "must be one of " + strings.TrimPrefix(strings.Join(c.known, ", "), ", ")
				broken = append(broken, source.Invalid{Field: c.field, Code: c.field + "_unknown", Rule: rule})
			}
		}
		if len(broken) > 0 {
			httpapi.WriteProblem(w, endpoint.BadRequest(broken...))
			return
		}
		first, err := h.sources.List(r.Context(), selection.Filter(), uuid.Nil, exportPage)
		if err != nil {
			api.Refuse(w, err)
			return
		}
		if err := h.export(r.Context(), w, format, selection.Filter(), first); err != nil {
			httpapi.Abort(httpapi.Internal(err))
		}
	}
}

// export writes the list, whose first page has been read.
func (h *Handler) export(
	ctx context.Context, w http.ResponseWriter, format string, f sources.Filter, page []source.CrawlSource,
) error {
	w.Header().Set("Content-Type", typeOf[format])
	w.Header().Set("Content-Disposition", `attachment; filename="sources.`+format+`"`)
	used, err := h.sources.OverrideNames(ctx)
	if err != nil {
		return err
	}
	columns := slices.DeleteFunc(slices.Clone(sources.JobColumns), func(name string) bool {
		return !slices.Contains(used, strings.TrimPrefix(name, "job_"))
	})
	list, err := sources.NewListWriter(format, w, columns)
	for err == nil && len(page) > 0 {
		overrides, failed := h.sources.Overrides(ctx, page)
		if failed != nil {
			return failed
		}
		for _, s := range page {
			if err := list.Write(s.Fields, overrides[s.ID]); err != nil {
				return err
			}
		}
		page, err = h.sources.List(ctx, f, page[len(page)-1].ID, exportPage)
	}
	if err != nil {
		return err
	}
	return list.Close()
}
