package pipeline

import (
	"context"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/query/reads"
)

// exportedSources is how many sources of an export are read at one time.
const exportedSources = 1_000

// SourcesExportRequest are the parameters of GET /funnel/sources/export.
type SourcesExportRequest struct {
	httpapi.Params
	SourceSelection
	reads.Format
}

// Resolve implements huma.Resolver.
func (r *SourcesExportRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(s *Service) reads.Faults { _, f := r.question(s.cfg.Now()); return f })
}

// exportSources answers with all sources that GET /funnel/sources has on its pages,
// as of the time of the request.
func (s *Service) exportSources(ctx context.Context, r SourcesExportRequest) (reads.File, error) {
	q, faults := r.question(s.cfg.Now())
	if err := faults.Err(); err != nil {
		return reads.File{}, err
	}
	q.limit = exportedSources
	next := func(ctx context.Context) ([]Source, bool, error) {
		page, err := s.sourcesPage(ctx, q)
		for i := range page.Sources {
			page.Sources[i].Counts = nil // a row does not say of which parts
		}
		q.skip += len(page.Sources)
		return page.Sources, len(page.Sources) > 0 && uint64(q.skip) < page.Total, err
	}
	return sourceTable.File(r.Format, q.now, next), nil
}

// sourceTable is how sources are exported.
var sourceTable = reads.Table[Source, parquetSource]{
	Name: "sources",
	Columns: []string{
		"rank", "name", "count", "last_event_at", "longest_gap_from", "longest_gap_to", "longest_gap_seconds",
	},
	Cells: func(v Source) ([]string, error) {
		row := parquetSourceOf(v)
		return []string{
			strconv.FormatUint(v.Rank, 10), tabular.EscapeCell(v.Name), strconv.FormatUint(v.Count, 10),
			reads.TimeCell(&v.LastEventAt), reads.TimeCell(row.GapFrom), reads.TimeCell(row.GapTo),
			strconv.FormatInt(row.GapSeconds, 10),
		}, nil
	},
	Parquet: parquetSourceOf,
}

// parquetSource is a row of Parquet.
type parquetSource struct {
	Rank        uint64     `parquet:"rank"`
	Name        string     `parquet:"name"`
	Count       uint64     `parquet:"count"`
	LastEventAt time.Time  `parquet:"last_event_at,timestamp(nanosecond)"`
	GapFrom     *time.Time `parquet:"longest_gap_from,optional,timestamp(nanosecond)"`
	GapTo       *time.Time `parquet:"longest_gap_to,optional,timestamp(nanosecond)"`
	GapSeconds  int64      `parquet:"longest_gap_seconds"` // 0 without a gap
}

func parquetSourceOf(v Source) parquetSource {
	row := parquetSource{Rank: v.Rank, Name: v.Name, Count: v.Count, LastEventAt: v.LastEventAt}
	if gap := v.LongestGap; gap != nil {
		row.GapFrom, row.GapTo, row.GapSeconds = &gap.From, &gap.To, gap.Seconds
	}
	return row
}
