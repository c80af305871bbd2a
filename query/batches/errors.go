package batches

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/item"
)

// ErrorSelection are the parameters that select errors. Those that are empty do not filter.
type ErrorSelection struct {
	Code      string `query:"code" doc:"Only errors with this error_code" example:"RATE_LIMITED"`
	Category  string `query:"category" enum:"rate_limiting,content,network,parsing,media,storage,generic" doc:"Only errors of this category"`
	ProjectID string `query:"project_id" doc:"Only errors of this project" example:"proj_xyz"`
	Platform  string `query:"platform" doc:"Only errors of this platform, as announced" example:"tiktok"`
	JobID     string `query:"job_id" doc:"Only errors of this job" example:"proj_xyz-brand-0"`
	Span
}

func (s ErrorSelection) check(*Handler) (f reads.Faults) {
	checkName(&f, "code", s.Code)
	checkName(&f, "project_id", s.ProjectID)
	checkName(&f, "platform", s.Platform)
	checkName(&f, "job_id", s.JobID)
	s.Span.check(&f)
	return f
}

func (s ErrorSelection) params(more reads.Params) reads.Params {
	from, to := s.bounds()
	p := reads.Params{
		"code": s.Code, "category": s.Category, "project": s.ProjectID, "platform": s.Platform, "job": s.JobID,
		"from": from, "to": to,
	}
	maps.Copy(p, more)
	return p
}

// CrawlErrorsRequest are the parameters of GET /crawl-errors.
type CrawlErrorsRequest struct {
	httpapi.Params
	ErrorSelection
	reads.Page
	after reads.Pair
}

// Resolve implements huma.Resolver.
func (r *CrawlErrorsRequest) Resolve(ctx huma.Context) []error {
	r.after[0] = math.MaxInt64
	return append(reads.Resolve(ctx, r.Params, r.check), endpoint.Faults(errorCursor.Read(r.Cursor, &r.after))...)
}

// CrawlError is an item that is an error at present.
type CrawlError struct {
	JobID         string          `json:"job_id" example:"proj_xyz-brand-0"`
	BatchIndex    uint32          `json:"batch_index" example:"1"`
	Position      uint32          `json:"position" doc:"In the batch, from 0"`
	Attempts      uint64          `json:"attempts" doc:"Retries that the error took; 0: it came with the batch"`
	ProjectID     *string         `json:"project_id" doc:"null: a dry run, or none"`
	Platform      string          `json:"platform" example:"tiktok"`
	ContentID     string          `json:"content_id" doc:"Empty: none can be read"`
	ErrorCode     string          `json:"error_code" example:"RATE_LIMITED"`
	ErrorCategory string          `json:"error_category" example:"rate_limiting"`
	ErrorMessage  string          `json:"error_message"`
	ErrorDetails  json.RawMessage `json:"error_details" doc:"A JSON value, or null"`
	Permalink     string          `json:"permalink"`
	ReadAt        time.Time       `json:"read_at" doc:"When the batch was read"`
	CreatedAt     time.Time       `json:"created_at" doc:"When the error came"`

	place uint64 // in the order of the list, among errors of one time
}

// CrawlErrorPage is a page of errors.
type CrawlErrorPage struct {
	reads.List[CrawlError]
	Total        uint64   `json:"total" doc:"Errors that the filters select, on all pages"`
	ContentCount uint64   `json:"content_count" doc:"Items of the same project, platform, job and time, whatever became of them"`
	Rate         *float64 `json:"rate" doc:"total of content_count, from 0 to 1; null: there are no items"`
}

func (h *Handler) errors(ctx context.Context, r CrawlErrorsRequest) (page CrawlErrorPage, err error) {
	p := r.params(reads.Params{
		"at": int64(r.after[0]), "place": r.after[1], "first": r.Cursor == "", "limit": r.Limit + 1,
	})
	all, err := reads.Rows(ctx, h.set, "crawl_errors.sql", p, scanError)
	if err != nil {
		return page, err
	}
	page.List = reads.ListOf(errorCursor, all, r.Limit, func(e CrawlError) reads.Pair {
		return reads.Pair{uint64(e.ReadAt.UnixNano()), e.place}
	})
	err = h.set.Each(ctx, "crawl_error_totals.sql", r.params(nil), func(rows driver.Rows) error {
		return rows.Scan(&page.Total, &page.ContentCount)
	})
	page.Rate = rate(page.Total, page.ContentCount)
	return page, err
}

func scanError(rows driver.Rows) (e CrawlError, err error) {
	var project, details string
	err = rows.Scan(&e.JobID, &e.BatchIndex, &e.Position, &e.Attempts, &project, &e.Platform, &e.ContentID, &e.ErrorCode,
		&e.ErrorCategory, &e.ErrorMessage, &details, &e.Permalink, &e.ReadAt, &e.CreatedAt, &e.place)
	e.ProjectID, e.ErrorDetails = none(project), document(details)
	e.ReadAt, e.CreatedAt = e.ReadAt.UTC(), e.CreatedAt.UTC()
	return e, err
}

func rate(part, whole uint64) *float64 {
	if whole == 0 {
		return nil
	}
	share := float64(part) / float64(whole)
	return &share
}

// CrawlErrorRatesRequest are the parameters of GET /crawl-errors/rates.
type CrawlErrorRatesRequest struct {
	httpapi.Params
	ErrorSelection
	By string `query:"by" enum:"code,category,project,platform,hour,day" default:"code" doc:"What errors are put together by; hours and days are of UTC, by when the batch was read"`
}

// Resolve implements huma.Resolver.
func (r *CrawlErrorRatesRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, r.check)
}

// CrawlErrorRate are the errors with one value.
type CrawlErrorRate struct {
	Name         string   `json:"name" doc:"The code, category, project or platform; or when the hour or day begins. Empty: no project, or a platform that was not said" example:"RATE_LIMITED"`
	Errors       uint64   `json:"errors"`
	ContentCount uint64   `json:"content_count" doc:"Items that may have had it: of the project, platform or time; for codes and categories all that the other filters select"`
	Rate         *float64 `json:"rate" doc:"errors of content_count, from 0 to 1; null: there are no items"`
}

// CrawlErrorRates are errors by a property.
type CrawlErrorRates struct {
	By           string           `json:"by"`
	Errors       uint64           `json:"errors" doc:"Errors that the filters select"`
	ContentCount uint64           `json:"content_count" doc:"Items of the same project, platform, job and time"`
	Rate         *float64         `json:"rate" doc:"errors of content_count, from 0 to 1; null: there are no items"`
	Items        []CrawlErrorRate `json:"items" nullable:"false" doc:"The most frequent first, and times the earliest first; up to 1,000"`
}

// mostRates is how many values rates are told of.
const mostRates = 1_000

func (h *Handler) rates(ctx context.Context, r CrawlErrorRatesRequest) (out CrawlErrorRates, err error) {
	p := r.params(reads.Params{"by": r.By})
	byName := map[string]*CrawlErrorRate{}
	of := func(name string) *CrawlErrorRate {
		if byName[name] == nil {
			byName[name] = &CrawlErrorRate{Name: name}
		}
		return byName[name]
	}
	var name string
	var n uint64
	err = h.set.Each(ctx, "crawl_error_rates.sql", p, func(rows driver.Rows) error {
		err := rows.Scan(&name, &n)
		of(name).Errors = n
		out.Errors += n
		return err
	})
	if err != nil {
		return out, err
	}
	common := r.By == "code" || r.By == "category"
	err = h.set.Each(ctx, "item_counts.sql", p, func(rows driver.Rows) error {
		err := rows.Scan(&name, &n)
		if !common {
			of(name).ContentCount = n
		}
		out.ContentCount += n
		return err
	})
	out.By, out.Rate = r.By, rate(out.Errors, out.ContentCount)
	out.Items = make([]CrawlErrorRate, 0, len(byName))
	for _, of := range byName {
		if common {
			of.ContentCount = out.ContentCount
		}
		of.Rate = rate(of.Errors, of.ContentCount)
		out.Items = append(out.Items, *of)
	}
	sortRates(out.Items, r.By == "hour" || r.By == "day")
	out.Items = out.Items[:min(len(out.Items), mostRates)]
	return out, err
}

func sortRates(all []CrawlErrorRate, byTime bool) {
	slices.SortFunc(all, func(a, b CrawlErrorRate) int {
		if byTime {
			return cmp.Compare(a.Name, b.Name)
		}
		return cmp.Or(cmp.Compare(b.Errors, a.Errors), cmp.Compare(a.Name, b.Name))
	})
}

// CrawlErrorGroupsRequest are the parameters of GET /crawl-errors/groups.
type CrawlErrorGroupsRequest struct {
	httpapi.Params
	ErrorSelection
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many groups at most, the largest"`
}

// Resolve implements huma.Resolver.
func (r *CrawlErrorGroupsRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, r.check)
}

// CrawlErrorGroup are errors of one code whose messages differ only in numbers, ids and
// addresses.
type CrawlErrorGroup struct {
	ErrorCode     string     `json:"error_code" example:"RATE_LIMITED"`
	ErrorCategory string     `json:"error_category" example:"rate_limiting"`
	Fingerprint   string     `json:"fingerprint" doc:"The message, with numbers, ids and addresses made alike"`
	Count         uint64     `json:"count"`
	FirstSeen     time.Time  `json:"first_seen" doc:"When the first of them came"`
	LastSeen      time.Time  `json:"last_seen" doc:"When the last of them came"`
	Example       CrawlError `json:"example" doc:"The last of them"`
}

// CrawlErrorGroups are groups of errors.
type CrawlErrorGroups struct {
	Groups []CrawlErrorGroup `json:"groups" nullable:"false" doc:"The largest first"`
	More   bool              `json:"more" doc:"Whether there are smaller groups than these"`
}

// mostAlike is how many kinds of messages are read to be put together.
const mostAlike = 20_000

func (h *Handler) groups(ctx context.Context, r CrawlErrorGroupsRequest) (out CrawlErrorGroups, err error) {
	type key struct{ code, fingerprint string }
	found, kinds := map[key]*CrawlErrorGroup{}, 0
	p := r.params(reads.Params{"limit": mostAlike})
	err = h.set.Each(ctx, "crawl_error_groups.sql", p, func(rows driver.Rows) error {
		g, err := scanGroup(rows)
		k := key{g.ErrorCode, g.Fingerprint}
		if kinds++; found[k] == nil {
			found[k] = &g
		} else {
			found[k].add(g)
		}
		return err
	})
	out.Groups = make([]CrawlErrorGroup, 0, len(found))
	for _, g := range found {
		out.Groups = append(out.Groups, *g)
	}
	slices.SortFunc(out.Groups, func(a, b CrawlErrorGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.ErrorCode, b.ErrorCode),
			cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	out.More = kinds == mostAlike || len(out.Groups) > r.Limit
	out.Groups = out.Groups[:min(len(out.Groups), r.Limit)]
	return out, err
}

func scanGroup(rows driver.Rows) (g CrawlErrorGroup, err error) {
	e := &g.Example
	var project string
	err = rows.Scan(&g.ErrorCode, &g.ErrorCategory, &g.Count, &g.FirstSeen, &g.LastSeen, &e.JobID, &e.BatchIndex,
		&e.Position, &e.Attempts, &project, &e.Platform, &e.ContentID, &e.ErrorMessage, &e.Permalink, &e.ReadAt)
	g.FirstSeen, g.LastSeen = g.FirstSeen.UTC(), g.LastSeen.UTC()
	e.ErrorCode, e.ErrorCategory, e.CreatedAt, e.ReadAt = g.ErrorCode, g.ErrorCategory, g.LastSeen, e.ReadAt.UTC()
	e.ProjectID, e.ErrorDetails = none(project), document("")
	g.Fingerprint = item.Fingerprint(e.ErrorMessage)
	return g, err
}

// add adds errors that are alike.
func (g *CrawlErrorGroup) add(other CrawlErrorGroup) {
	g.Count += other.Count
	if other.FirstSeen.Before(g.FirstSeen) {
		g.FirstSeen = other.FirstSeen
	}
	if other.LastSeen.After(g.LastSeen) {
		g.LastSeen, g.Example = other.LastSeen, other.Example
	}
}
