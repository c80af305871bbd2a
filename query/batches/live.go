package batches

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/instant"
)

const (
	// liveEvery is how often the view is computed while someone watches.
	liveEvery = 200 * time.Millisecond
	// liveSlow is how long a snapshot takes that is computed less often.
	liveSlow = 250 * time.Millisecond
	// liveNewest is how many batches the view lists.
	liveNewest = 20
)

// LiveBatches is the state of the view batches, all of one instant.
type LiveBatches struct {
	BatchesSummary
	Newest []CrawlBatch `json:"newest" nullable:"false" doc:"The 20 batches that were read last, the last first"`
}

// View returns the live view of batches.
func (h *Handler) View() live.View {
	return live.View{
		Name: "batches", Summary: "as GET /batches/summary shows those that were read in a period, and the last 20 of them",
		State: reflect.TypeFor[LiveBatches](), Every: liveEvery, Open: h.openLive,
		Params: []live.Param{
			{
				Name: "period", Doc: "When batches were read; default today",
				Enum: []string{reads.Today, "24h", "7d", "30d"},
			},
			{Name: "tz", Doc: "The time zone in which days begin; default UTC", Example: "Europe/Berlin"},
			{Name: "job_id", Doc: "Only batches of this job; empty: all", Example: "proj_xyz-brand-0"},
			{Name: "project_id", Doc: "Only batches of this project; empty: all", Example: "proj_xyz"},
			{Name: "platform", Doc: "Only batches of this platform, as announced; empty: all", Example: "tiktok"},
		},
	}
}

func (h *Handler) openLive(_ auth.Caller, v live.Values) (key string, s live.Source, p *httpapi.Problem) {
	var broken reads.Faults
	spec := broken.Window(reads.WindowRequest{Period: v["period"], TZ: v["tz"]})
	of := BatchSelection{JobID: v["job_id"], ProjectID: v["project_id"], Platform: v["platform"]}
	broken = append(broken, of.check(h)...)
	if len(broken) > 0 {
		return "", nil, broken.Problem()
	}
	key = fmt.Sprintf("%q %q %q %q", spec.Key(), of.JobID, of.ProjectID, of.Platform)
	return key, &liveSource{Handler: h, spec: spec, of: of}, nil
}

// liveSource computes the snapshots of one question.
type liveSource struct {
	*Handler
	spec reads.WindowSpec
	of   BatchSelection
}

// Changed implements live.Source: Postgres does not say when rows change.
func (*liveSource) Changed() <-chan struct{} { return nil }

// Snapshot implements live.Source.
func (s *liveSource) Snapshot(ctx context.Context) (live.Snapshot, error) {
	defer prometheus.NewTimer(s.durations.WithLabelValues("live")).ObserveDuration()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	begun, of := time.Now(), s.of
	of.From = instant.New(s.spec.At(begun).From)
	state, err := s.liveState(ctx, of.conditions())
	if err != nil {
		err = fmt.Errorf("summarize batches: %w", err)
		return live.Snapshot{}, live.Unavailable("batches are not known while Postgres is away or slow", err)
	}
	body, err := json.Marshal(state)
	if err != nil {
		return live.Snapshot{}, fmt.Errorf("encode batches: %w", err)
	}
	return live.Snapshot{Body: body, Numbers: string(body), Slow: time.Since(begun) > liveSlow}, nil
}

func (h *Handler) liveState(ctx context.Context, c conditions) (state LiveBatches, err error) {
	err = pgx.BeginTxFunc(ctx, h.Postgres, oneInstant, func(tx pgx.Tx) error {
		if state.BatchesSummary, err = summarize(ctx, tx, c); err != nil {
			return err
		}
		state.Newest, err = page(ctx, tx, c, liveNewest)
		return err
	})
	return state, err
}
