package tenanttest

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/reads"
)

// Reads tell of reviews.
type Reads struct{ Postgres *pgxpool.Pool }

// Register adds the routes.
func (r Reads) Register(api endpoint.API) {
	endpoint.Get(api.At("/reviews", "Reviews"), endpoint.For(auth.Read)("list-reviews", "", "Reviews, the oldest first"),
		r.list)
}

// StoredReview is a review and what became of it.
type StoredReview struct {
	Review
	Seq   int64     `json:"seq"`
	State string    `json:"state" enum:"waiting,refused,new,scheduled,started,done,failed,dead,cancelled,deleted,dropped"`
	At    time.Time `json:"at"`
}

// ReviewsRequest are the parameters of the list.
type ReviewsRequest struct {
	httpapi.Params
	reads.Page
	OfPage string `query:"page" maxLength:"200" doc:"Only reviews of this page"`
	State  string `query:"state" maxLength:"20" doc:"Only reviews in this state"`
	after  int64
}

// Resolve implements huma.Resolver.
func (r *ReviewsRequest) Resolve(ctx huma.Context) []error {
	return append(r.Params.Resolve(ctx), endpoint.Faults(reads.Numbers.Read(r.Cursor, &r.after))...)
}

// ReviewPage is a page of reviews.
type ReviewPage struct{ reads.List[StoredReview] }

const sqlList = `SELECT id, page, body, seq, state, at FROM reviews.review
	WHERE ($1 = '' OR page = $1) AND ($2 = '' OR state = $2) AND seq > $3 ORDER BY seq LIMIT $4`

func (r Reads) list(ctx context.Context, in *ReviewsRequest) (ReviewPage, error) {
	rows, _ := r.Postgres.Query(ctx, sqlList, in.OfPage, in.State, in.after, in.Limit+1)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s StoredReview, err error) {
		err = row.Scan(&s.ID, &s.Page, &s.Text, &s.Seq, &s.State, &s.At)
		s.At = s.At.UTC()
		return s, err
	})
	return ReviewPage{reads.ListOf(reads.Numbers, all, in.Limit, func(s StoredReview) int64 { return s.Seq })}, err
}

// LiveReviews is the state of the view reviews.
type LiveReviews struct {
	States map[string]int64 `json:"states" doc:"Reviews by state"`
}

// View is the live view of reviews.
func (r Reads) View() live.View {
	return live.Polled(live.View{Name: "reviews", Summary: "reviews by state"},
		"the reviews are not known while Postgres is away or slow", r.states)
}

func (r Reads) states(ctx context.Context) (LiveReviews, error) {
	out := LiveReviews{States: map[string]int64{}}
	rows, _ := r.Postgres.Query(ctx, "SELECT state, count(*) FROM reviews.review GROUP BY state")
	var state string
	var n int64
	_, err := pgx.ForEachRow(rows, []any{&state, &n}, func() error {
		out.States[state] = n
		return nil
	})
	return out, err
}
