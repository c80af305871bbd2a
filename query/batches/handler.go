package batches

import (
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/metric"
	"github.com/millrace-io/millrace/query/batches/itemindex"
	"github.com/millrace-io/millrace/query/reads"
)

//go:embed sql/*.sql
var files embed.FS

// timeout bounds a request, and each of its queries.
const timeout = 10 * time.Second

// Deps are what the handler works with. All of them but Index are needed, and it closes none.
type Deps struct {
	Postgres   *pgxpool.Pool
	ClickHouse driver.Conn
	Index      *itemindex.Index // nil: items are looked up in ClickHouse
	Registry   prometheus.Registerer
	Log        *slog.Logger
}

// Handler answers the reads.
type Handler struct {
	Deps
	set       *reads.Selects
	durations *prometheus.HistogramVec
	reporting *reads.Places
}

// New returns the handler; Register puts it on a server.
func New(deps Deps) (*Handler, error) {
	if deps.Postgres == nil || deps.ClickHouse == nil || deps.Registry == nil || deps.Log == nil {
		return nil, errors.New("batch reads: Postgres, ClickHouse, a registry and a logger are needed")
	}
	set, err := reads.NewSelects(deps.ClickHouse, files, timeout)
	if err != nil {
		return nil, fmt.Errorf("batch reads: %w", err)
	}
	h := &Handler{Deps: deps, set: set, reporting: reads.NewExportPlaces()}
	h.durations = metric.Histograms("millrace_batches_query_duration_seconds",
		"Time to answer questions about batches and their items, by endpoint.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, "endpoint")
	if err := deps.Registry.Register(h.durations); err != nil {
		return nil, fmt.Errorf("batch reads: %w", err)
	}
	return h, nil
}

// Register adds the routes, for callers with the scope read.
func (h *Handler) Register(api endpoint.API) {
	api = api.At("", "Batches")
	api.Limit, api.Took = timeout, h.durations
	api.Known = func(err error) error { return reads.Problem(h.Log, err) }
	reads.Get(api, h, "batches", "/batches", "Batches of crawled items, those read last first", h.list)
	reads.Get(api, h, "batches-summary", "/batches/summary", "Numbers of batches and of their items, and over time",
		h.summary)
	reads.GetFile(api, h, "batches-report", "/batches/report", "What became of each item of a batch, a job or a project",
		reads.ContentTypes(), h.reporting, h.report)
	reads.Get(api, h, "batch", "/batches/{job_id}/{batch_index}", "A batch", h.one)
	reads.Get(api, h, "batch-contents", "/batches/{job_id}/{batch_index}/items", "What became of each item of a batch, in its order",
		h.items)
	reads.Get(api, h, "batch-item", "/batch-items/{content_id}", "The newest crawl of an item, and its others", h.item)
	reads.Get(api, h, "crawl-errors", "/crawl-errors", "Items that are errors at present, of the batches read last first, with their share",
		h.errors)
	reads.Get(api, h, "crawl-error-rates", "/crawl-errors/rates", "Errors and their share by a property, or over time",
		h.rates)
	reads.Get(api, h, "crawl-error-groups", "/crawl-errors/groups", "Errors that are alike put together", h.groups)
}

// postgres turns an error of Postgres into what the caller is told.
func (h *Handler) postgres(operation string, err error) error {
	if err == nil {
		return nil
	}
	return endpoint.Problem(h.Log, fmt.Errorf("%s: %w", operation, err))
}
