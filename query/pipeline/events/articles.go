package events

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
)

// Slowest is the order of articles by how long they took.
const Slowest = "slowest"

// ArticleSelection are the parameters that say which articles, and in which order.
type ArticleSelection struct {
	StuckAfter string `query:"stuck_after" doc:"Articles that reached this stage and none after it, the longest stuck first" example:"classified"`
	OlderThan  string `query:"older_than" default:"1h" doc:"With stuck_after: at least this long ago; 90s, 30m, 1h, 2d"`
	Within     string `query:"within" default:"7d" doc:"With stuck_after: at most this long ago"`

	Sort      string `query:"sort" enum:"slowest" doc:"Instead of stuck_after: articles by the time from one stage to another, the slowest first"`
	FromStage string `query:"from_stage" doc:"With sort=slowest; default the first stage" example:"crawled"`
	ToStage   string `query:"to_stage" doc:"With sort=slowest; default the last stage" example:"published"`
	Period    string `query:"period" enum:"today,24h,7d,30d" doc:"With sort=slowest: the window in which both stages were reached, as for the funnel" example:"24h"`
	reads.WindowTimes

	Source string `query:"source" doc:"Only articles of this source" example:"example_com"`
}

// ArticlesRequest are the parameters of GET /articles.
type ArticlesRequest struct {
	httpapi.Params
	ArticleSelection
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many articles a page has at most"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before, with the same parameters"`
}

// Article is an article on its way.
type Article struct {
	URLHash    string     `json:"url_hash"`
	ArticleURL string     `json:"article_url" example:"https://example.com/article-123"`
	SourceName string     `json:"source_name" example:"example_com"`
	TraceID    string     `json:"trace_id,omitempty" doc:"The newest"`
	Stage      string     `json:"stage" doc:"That it is stuck after, or from which on it was slow" example:"classified"`
	ReachedAt  time.Time  `json:"reached_at" doc:"When it first reached the stage" example:"2026-02-10T14:30:00Z"`
	Until      string     `json:"until_stage,omitempty" doc:"With sort=slowest" example:"published"`
	UntilAt    *time.Time `json:"until_at,omitempty" doc:"When it first reached until_stage"`
	LastAt     *time.Time `json:"last_event_at,omitempty" doc:"With stuck_after: its last event, a repeated one perhaps"`
	Events     uint64     `json:"events,omitempty" doc:"With stuck_after: how many it has" example:"3"`
	Seconds    float64    `json:"seconds" doc:"Since reached_at until now, or until until_at" example:"7260"`
}

// ArticlesPage is the answer of GET /articles.
type ArticlesPage struct {
	Articles   []Article   `json:"articles"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"For the next page; absent on the last one"`
	Notes      reads.Notes `json:"notes,omitempty" doc:"As in the funnel"`
}

// Resolve implements huma.Resolver.
func (r *ArticlesRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(h *Handler) reads.Faults {
		_, f := h.finding(r.ArticleSelection, r.Cursor, h.Now())
		return f
	})
}

func (h *Handler) articles(ctx context.Context, r ArticlesRequest) (ArticlesPage, error) {
	find, faults := h.finding(r.ArticleSelection, r.Cursor, h.Now())
	if err := faults.Err(); err != nil {
		return ArticlesPage{}, err
	}
	page, err := h.articlePage(ctx, find, r.Limit)
	if err == nil && len(page.Articles) == 0 {
		page.Notes = h.Notes(ctx, r.Source)
	}
	return page, err
}

// finding finds a page of articles.
type finding func(ctx context.Context, folded store.Cut, limit int) (ArticlesPage, error)

// articlePage finds a page of articles when it is its turn.
func (h *Handler) articlePage(ctx context.Context, find finding, limit int) (ArticlesPage, error) {
	leave, err := h.Analysing.Enter(ctx)
	if err != nil {
		return ArticlesPage{}, err
	}
	defer leave()
	folded, err := h.Folded(ctx)
	if err != nil {
		return ArticlesPage{}, err
	}
	return find(ctx, folded, limit)
}

// finding checks a request and returns how to answer it, as of a time.
func (h *Handler) finding(r ArticleSelection, cursor string, now time.Time) (find finding, f reads.Faults) {
	f.Add(reads.CheckName("source", r.Source))
	switch {
	case r.StuckAfter != "" && r.Sort != "":
		f.Add(reads.Broken("sort", "stuck_or_slowest", "must be absent where stuck_after is given"))
	case r.StuckAfter != "":
		find = h.stuck(r, cursor, now, &f)
	case r.Sort == Slowest:
		find = h.slowest(r, cursor, now, &f)
	case r.Sort != "":
		f.Add(reads.Broken("sort", "sort_unknown", "must be slowest"))
	default:
		f.Add(reads.Broken("stuck_after", "missing", "is required unless sort=slowest is given"))
	}
	return find, f
}

// stuck checks a request for stuck articles and returns how to answer it.
func (h *Handler) stuck(r ArticleSelection, cursor string, now time.Time, f *reads.Faults) finding {
	names := h.Stages.Names()
	at, p := h.place("stuck_after", r.StuckAfter)
	f.Add(p)
	if at == len(names)-1 {
		f.Add(
			reads.Broken("stuck_after", "stage_last", "must not be the last stage, after which nothing is waited for"),
		)
	}
	older, tooOld := parseAge("older_than", r.OlderThan)
	f.Add(tooOld)
	within, tooLong := parseAge("within", r.Within)
	f.Add(tooLong)
	if tooOld == nil && tooLong == nil && within <= older {
		f.Add(reads.Broken("within", "span_order", "must be longer than older_than"))
	}
	after := after(stuckCursor, cursor, math.MinInt64, f)
	return func(ctx context.Context, folded store.Cut, limit int) (ArticlesPage, error) {
		scope := store.Scope{Source: r.Source, From: now.Add(-within), To: now.Add(-older), Cut: folded}
		rows, err := h.Store.Stuck(ctx, scope, r.StuckAfter, names[at+1:], after, limit+1)
		return newArticles(rows, limit, stuckCursor, func(a store.Article, out *Article) int64 {
			out.Stage, out.LastAt, out.Events = r.StuckAfter, &a.LastAt, a.Events
			out.Seconds = now.Sub(a.ReachedAt).Seconds()
			return a.ReachedAt.UnixNano()
		}), err
	}
}

// slowest checks a request for slow articles and returns how to answer it.
func (h *Handler) slowest(r ArticleSelection, cursor string, now time.Time, f *reads.Faults) finding {
	names := h.Stages.Names()
	if r.FromStage == "" {
		r.FromStage = names[0]
	}
	if r.ToStage == "" {
		r.ToStage = names[len(names)-1]
	}
	from, noFrom := h.place("from_stage", r.FromStage)
	f.Add(noFrom)
	to, noTo := h.place("to_stage", r.ToStage)
	f.Add(noTo)
	if noFrom == nil && noTo == nil && from >= to {
		f.Add(reads.Broken("to_stage", "stage_order", "must come after from_stage"))
	}
	spec := f.Window(reads.WindowRequest{Period: r.Period, From: r.From, To: r.To, TZ: r.TZ, Now: now})
	after := after(slowestCursor, cursor, math.MaxInt64, f)
	return func(ctx context.Context, folded store.Cut, limit int) (ArticlesPage, error) {
		w := spec.At(now)
		scope := store.Scope{Source: r.Source, From: w.From, To: w.End(), Cut: folded}
		rows, err := h.Store.Slowest(ctx, scope, r.FromStage, r.ToStage, after, limit+1)
		return newArticles(rows, limit, slowestCursor, func(a store.Article, out *Article) int64 {
			out.Stage, out.Until, out.UntilAt, out.Seconds = r.FromStage, r.ToStage, &a.LastAt, a.Took.Seconds()
			return int64(a.Took)
		}), err
	}
}

// after reads a cursor; without one, pages begin at first.
func after(
	c reads.Cursor[store.ArticleCursor], cursor string, first int64, f *reads.Faults,
) store.ArticleCursor {
	at := store.ArticleCursor{At: first}
	f.Check(c.Read(cursor, &at))
	return at
}

// newArticles makes a page of rows, of which there is one more than fit if
// there is another page. fill adds what depends on the order, and returns the
// row's place in it.
func newArticles(
	rows []store.Article, limit int, cursor reads.Cursor[store.ArticleCursor],
	fill func(store.Article, *Article) int64,
) ArticlesPage {
	page := ArticlesPage{Articles: make([]Article, 0, len(rows))}
	for i, row := range rows {
		out := Article{
			URLHash: row.Hash, ArticleURL: row.URL, SourceName: row.Source, TraceID: row.Trace,
			ReachedAt: row.ReachedAt,
		}
		at := fill(row, &out)
		page.Articles = append(page.Articles, out)
		if i == limit-1 && len(rows) > limit {
			page.NextCursor = cursor.Encode(store.ArticleCursor{At: at, ID: row.ID()})
			break
		}
	}
	return page
}

// place returns where in the pipeline a stage is.
func (h *Handler) place(field, name string) (int, *httpapi.Problem) {
	at, known := h.Stages.Index([]byte(name))
	if !known {
		return 0, h.unknownStage(field, name)
	}
	return at, nil
}

// maxAge bounds how far back articles are looked for.
const maxAge = 10 * 366 * 24 * time.Hour

// parseAge reads a positive duration as Go writes it, or whole days such as 2d.
func parseAge(field, text string) (time.Duration, *httpapi.Problem) {
	age, err := time.ParseDuration(text)
	if days, cut := strings.CutSuffix(text, "d"); cut {
		var n uint16
		if parsed, e := strconv.ParseUint(days, 10, 16); e == nil {
			n, err = uint16(parsed), nil
		}
		age = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || age <= 0 || age > maxAge {
		return 0, reads.Broken(
			field, "duration", "must be a duration such as 90s, 30m, 1h or 2d, of at most ten years",
		)
	}
	return age, nil
}
