package batches

import (
	"context"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/reads"
)

// BatchesSummaryRequest are the parameters of GET /batches/summary.
type BatchesSummaryRequest struct {
	httpapi.Params
	BatchSelection
}

// Resolve implements huma.Resolver.
func (r *BatchesSummaryRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, r.check)
}

// BatchNumbers are sums over batches. OK, Error and Retrying add up to ContentCount.
type BatchNumbers struct {
	Batches      int64 `json:"batches"`
	ContentCount int64 `json:"content_count" doc:"Items: ok, error and retrying together"`
	OK           int64 `json:"ok"`
	Error        int64 `json:"error"`
	Retrying     int64 `json:"retrying"`
}

// BatchesSummary are the numbers of the batches that filters select, all of one instant.
type BatchesSummary struct {
	BatchNumbers
	SuccessRate *float64      `json:"success_rate" doc:"ok of content_count, from 0 to 1; null: there are no items"`
	Warned      int64         `json:"warned" doc:"Batches with warnings"`
	Conflicts   int64         `json:"conflicts" doc:"Batches for which other content came"`
	FirstAt     *time.Time    `json:"first_read_at" doc:"null: there is no batch"`
	LastAt      *time.Time    `json:"last_read_at" doc:"null: there is no batch"`
	Errors      []CodeCount   `json:"errors" nullable:"false" doc:"Items that are errors at present by code; the most frequent first, up to 1,000"`
	StepSeconds int64         `json:"step_seconds" doc:"How long the parts of over_time are"`
	OverTime    []BatchesStep `json:"over_time" nullable:"false" doc:"By when batches were read, the earliest first; parts without a batch are left out"`
}

// BatchesStep are the numbers of the batches that were read within a part of time.
type BatchesStep struct {
	From time.Time `json:"from"`
	BatchNumbers
}

const numbersSQL = `count(*), coalesce(sum(content_count), 0), coalesce(sum(ok), 0), coalesce(sum(error), 0),
	coalesce(sum(retrying), 0)`

func (n *BatchNumbers) places() []any {
	return []any{&n.Batches, &n.ContentCount, &n.OK, &n.Error, &n.Retrying}
}

// oneInstant has a transaction read all of one instant, so that sums agree.
var oneInstant = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

func (h *Handler) summary(ctx context.Context, r BatchesSummaryRequest) (s BatchesSummary, err error) {
	err = pgx.BeginTxFunc(ctx, h.Postgres, oneInstant, func(tx pgx.Tx) error {
		s, err = summarize(ctx, tx, r.conditions())
		return err
	})
	return s, h.postgres("summarize batches", err)
}

func summarize(ctx context.Context, tx pgx.Tx, c conditions) (s BatchesSummary, err error) {
	err = tx.QueryRow(ctx, "SELECT "+numbersSQL+`, count(*) FILTER (WHERE warnings <> '[]'),
		count(*) FILTER (WHERE conflict IS NOT NULL), min(read_at), max(read_at) FROM millrace.batch `+c.text,
		c.args...).Scan(append(s.places(), &s.Warned, &s.Conflicts, &s.FirstAt, &s.LastAt)...)
	s.Errors, s.OverTime = []CodeCount{}, []BatchesStep{}
	if err != nil || s.Batches == 0 {
		return s, err
	}
	if s.ContentCount > 0 {
		rate := float64(s.OK) / float64(s.ContentCount)
		s.SuccessRate = &rate
	}
	*s.FirstAt, *s.LastAt = s.FirstAt.UTC(), s.LastAt.UTC()
	if s.Errors, err = sumCodes(ctx, tx, c); err != nil {
		return s, err
	}
	step := stepOf(s.LastAt.Sub(*s.FirstAt))
	s.StepSeconds = int64(step / time.Second)
	s.OverTime, err = overTime(ctx, tx, c, step)
	return s, err
}

func sumCodes(ctx context.Context, tx pgx.Tx, c conditions) ([]CodeCount, error) {
	rows, err := tx.Query(ctx, `SELECT e.key, sum(e.value::bigint)::bigint FROM millrace.batch
		CROSS JOIN LATERAL jsonb_each_text(errors) AS e `+c.text+" GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1000", c.args...)
	if err != nil {
		return nil, err
	}
	codes, n, code := map[string]int64{}, int64(0), ""
	_, err = pgx.ForEachRow(rows, []any{&code, &n}, func() error {
		codes[code] = n
		return nil
	})
	return codeCounts(codes), err
}

func overTime(ctx context.Context, tx pgx.Tx, c conditions, step time.Duration) ([]BatchesStep, error) {
	rows, _ := tx.Query(ctx, fmt.Sprintf("SELECT date_bin('%d s', read_at, 'epoch'::timestamptz), %s", step/time.Second,
		numbersSQL)+" FROM millrace.batch "+c.text+" GROUP BY 1 ORDER BY 1", c.args...)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (step BatchesStep, err error) {
		err = row.Scan(append([]any{&step.From}, step.places()...)...)
		step.From = step.From.UTC()
		return step, err
	})
}

// steps are lengths that parts of time have.
var steps = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
	3 * time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour,
}

// mostSteps is how many parts a span has at most, where the longest step suffices.
const mostSteps = 120

// stepOf returns the shortest step by which a span has few parts.
func stepOf(span time.Duration) time.Duration {
	for _, step := range steps {
		if span/step < mostSteps {
			return step
		}
	}
	return steps[len(steps)-1]
}
