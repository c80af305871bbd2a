package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/reads"
)

// funnelView is the funnel as live readers subscribe to it.
func (s *Service) funnelView() live.View {
	return live.View{
		Name: "funnel", Summary: "as GET /funnel shows it; without reclassifications at most once in 5 seconds",
		State: reflect.TypeFor[Funnel](), Open: s.openFunnel,
		Params: []live.Param{
			{Name: "period", Doc: "Default today", Enum: []string{reads.Today, "24h", "7d", "30d"}},
			{Name: "source", Doc: "Only this source; empty: all"},
			{Name: "tz", Doc: "The time zone in which days begin; default UTC", Example: "Europe/Berlin"},
			{
				Name: "exclude_reclassifications", Flag: true,
				Doc: "Leave out events whose metadata says is_reclassification",
			},
		},
	}
}

func (s *Service) openFunnel(_ auth.Caller, v live.Values) (key string, src live.Source, p *httpapi.Problem) {
	var broken reads.Faults
	q := question{source: v["source"], skipReclassified: v.Flag("exclude_reclassifications"), feed: true}
	q.spec = broken.Window(reads.WindowRequest{Period: v["period"], TZ: v["tz"]})
	broken.Add(reads.CheckName("source", q.source))
	if len(broken) > 0 {
		return "", nil, broken.Problem()
	}
	return q.key(), &funnelSource{Service: s, question: q}, nil
}

// funnelSource computes the snapshots of one question. Its feed uses it from one
// goroutine at a time.
type funnelSource struct {
	*Service
	question question

	notes   reads.Notes
	notedAt time.Time // when the notes were looked up; zero: they were not
}

// Changed implements live.Source.
func (f *funnelSource) Changed() <-chan struct{} { return f.mirror.Changed() }

// Snapshot implements live.Source.
func (f *funnelSource) Snapshot(ctx context.Context) (live.Snapshot, error) {
	defer prometheus.NewTimer(f.durations.WithLabelValues("live")).ObserveDuration()
	state, err := f.funnel(ctx, f.question, mirror.Auto, time.Second)
	if err != nil {
		return live.Snapshot{}, f.problem(err)
	}
	state.Notes = append(state.Notes, f.note(ctx, state)...)
	body, err := json.Marshal(state)
	if err != nil {
		return live.Snapshot{}, fmt.Errorf("encode the funnel: %w", err)
	}
	out := live.Snapshot{Body: body, Numbers: numbers(state), Slow: f.question.skipReclassified}
	if state.Stream.Behind > 0 { // nothing changes when what counts stands still, and then the numbers get old
		out.Again = time.Second
	}
	return out, nil
}

// note returns the notes that GET /funnel has. It looks them up now and then:
// while a feed is watched it is computed often.
func (f *funnelSource) note(ctx context.Context, state Funnel) reads.Notes {
	if f.question.source == "" || !state.empty() {
		f.notes, f.notedAt = nil, time.Time{}
		return nil
	}
	if f.notedAt.IsZero() || time.Since(f.notedAt) >= knownFor {
		f.notes, f.notedAt = f.Service.notes(ctx, f.question.source), time.Now()
	}
	return f.notes
}

// numbers is what makes a snapshot news: a rolling window moves all the time.
func numbers(f Funnel) string {
	var b strings.Builder
	if f.Period == reads.Today {
		b.WriteString(f.From.String())
	}
	fmt.Fprint(&b, f.UniqueMethod, f.Stages, f.Notes)
	if since := f.Stream.StaleSince; since != nil { // readers see how old the numbers are, and how many are missing
		fmt.Fprint(&b, since, f.Stream.Behind)
	}
	return b.String()
}
