package events

import (
	"context"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/query/reads"
)

// maxArticles is how many articles of an export are held at one time. Each page is
// a query over the whole window.
const maxArticles = 20_000

// ArticlesExportRequest are the parameters of GET /articles/export.
type ArticlesExportRequest struct {
	httpapi.Params
	ArticleSelection
	reads.Format
}

// Resolve implements huma.Resolver.
func (r *ArticlesExportRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(h *Handler) reads.Faults {
		_, f := h.finding(r.ArticleSelection, "", h.Now())
		return f
	})
}

// exportArticles answers with all articles that GET /articles has on its pages, as
// of the time of the request.
func (h *Handler) exportArticles(ctx context.Context, r ArticlesExportRequest) (reads.File, error) {
	now, cursor := h.Now(), ""
	if _, faults := h.finding(r.ArticleSelection, cursor, now); faults != nil {
		return reads.File{}, faults.Err()
	}
	next := func(ctx context.Context) ([]Article, bool, error) {
		find, _ := h.finding(r.ArticleSelection, cursor, now)
		page, err := h.articlePage(ctx, find, h.maxArticles)
		cursor = page.NextCursor
		return page.Articles, cursor != "", err
	}
	return articleTable.File(r.Format, now, next), nil
}

// articleTable is how articles are exported.
var articleTable = reads.Table[Article, parquetArticle]{
	Name: "articles",
	Columns: []string{ // as the fields of a JSON article are called
		"url_hash", "article_url", "source_name", "trace_id", "stage", "reached_at", "until_stage", "until_at",
		"last_event_at", "events", "seconds",
	},
	Cells: func(a Article) ([]string, error) {
		return []string{
			a.URLHash, tabular.EscapeCell(a.ArticleURL), tabular.EscapeCell(a.SourceName), tabular.EscapeCell(a.TraceID),
			tabular.EscapeCell(a.Stage),
			reads.TimeCell(&a.ReachedAt), tabular.EscapeCell(a.Until), reads.TimeCell(a.UntilAt), reads.TimeCell(a.LastAt),
			strconv.FormatUint(a.Events, 10), strconv.FormatFloat(a.Seconds, 'f', -1, 64),
		}, nil
	},
	Parquet: func(a Article) parquetArticle { return parquetArticle(a) },
}

// parquetArticle is a row of Parquet.
type parquetArticle struct {
	URLHash    string     `parquet:"url_hash"`
	ArticleURL string     `parquet:"article_url"`
	SourceName string     `parquet:"source_name,dict"`
	TraceID    string     `parquet:"trace_id"`
	Stage      string     `parquet:"stage,dict"`
	ReachedAt  time.Time  `parquet:"reached_at,timestamp(nanosecond)"`
	Until      string     `parquet:"until_stage,dict"`
	UntilAt    *time.Time `parquet:"until_at,optional,timestamp(nanosecond)"`
	LastAt     *time.Time `parquet:"last_event_at,optional,timestamp(nanosecond)"`
	Events     uint64     `parquet:"events"`
	Seconds    float64    `parquet:"seconds"`
}
