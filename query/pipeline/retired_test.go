package pipeline

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
)

// TestVersionsOfRetiredEvents: a version is as old as its earliest event, also
// where that is retired, and about so where the days of its month are dropped;
// what a retirement that was not committed has summed up does not count.
func TestVersionsOfRetiredEvents(t *testing.T) {
	t.Parallel()
	if engine.Shards() != nil {
		t.Skip("the servers of the cluster take no blocks with states of aggregates")
	}
	day := 24 * time.Hour
	july := time.Date(2025, 7, 5, 9, 0, 0, 0, time.UTC)
	one := func(int) float64 { return 50 }
	r := newRig(t, options{})
	r.write(classified("v1", july, []string{"crime"}, one)...)
	r.write(classified("v2", july.Add(10*day), []string{"crime"}, one)...)
	r.write(classified("v0", july.Add(-10*day), []string{"crime"}, one)...)
	r.write(classified("v2", noon.Add(-9*day), []string{"crime"}, one)...) // all are in use still
	r.write(classified("v1", noon.Add(-8*day), []string{"crime"}, one)...)
	r.write(classified("v0", noon.Add(-7*day), []string{"crime"}, one)...)
	const columns = " (period, stage, source_name, dimension, value, upto, events) "
	for _, q := range []string{
		"INSERT INTO events_daily" + columns +
			"SELECT toDate(occurred_at), stage, source_name, 'model_version', model_version, 3, 1 " +
			"FROM events WHERE seq <= 3",
		"INSERT INTO events_monthly" + columns +
			"SELECT toStartOfMonth(period), stage, source_name, dimension, value, upto, events FROM events_daily",
		"INSERT INTO events_daily" + columns + "VALUES ('2025-07-01', 'classified', 's', 'model_version', 'v2', 7, 1)",
		"INSERT INTO events_monthly" + columns +
			"VALUES ('2025-05-01', 'classified', 's', 'model_version', 'v0', 7, 1)",
		"INSERT INTO retired (month, upto, events, at) VALUES (202506, 3, 1, now()), (202507, 3, 2, now())",
		"ALTER TABLE " + engine.Rows("events") + " DROP PARTITION ID '202506'",
		"ALTER TABLE " + engine.Rows("events") + " DROP PARTITION ID '202507'",
		"ALTER TABLE " + engine.Rows("events_daily") + " DROP PARTITION ID '202506'",
	} {
		if err := r.svc.deps.ClickHouse.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	var got Drift
	r.Must("/stats/drift", nil, &got)
	var order []string
	for _, v := range got.Versions {
		first := map[string]time.Time{
			"v0": time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC), "v1": july, "v2": july.Add(10 * day),
		}[v.Version].Truncate(day)
		if want := int(noon.Sub(first) / day); v.AgeDays != want {
			t.Errorf("%s is %d days old, want %d", v.Version, v.AgeDays, want)
		}
		order = append(order, v.Version)
	}
	if !slices.Equal(order, []string{"v2", "v1", "v0"}) || got.Comparison.Current.Version != "v2" {
		t.Errorf("%v, and %s is compared", order, got.Comparison.Current.Version)
	}
}

// sameSources compares the sources of a window with their funnels.
func sameSources(t *testing.T, r *rig, from, to time.Time) {
	t.Helper()
	query := func(source string) url.Values {
		return viewtest.Values(
			"source", source, "from", from.Format(time.RFC3339Nano), "to", to.Format(time.RFC3339Nano),
		)
	}
	var got Sources
	r.Must("/funnel/sources", query(""), &got)
	if len(got.Sources) != 3 {
		t.Errorf("%s to %s: %+v", from, to, got)
	}
	for _, source := range got.Sources {
		var f Funnel
		r.Must("/funnel", query(source.Name), &f)
		var events uint64
		for _, stage := range f.Stages {
			events += stage.Count
		}
		if source.Count != events || events == 0 {
			t.Errorf("%s to %s: %+v, but the funnel has %d events", from, to, source, events)
		}
	}
}

// TestFunnelOfRetiredEvents holds that windows whose single events are gone
// are answered from the rows of the funnel, and say for what span.
func TestFunnelOfRetiredEvents(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	july := time.Date(2025, 7, 31, 23, 50, 0, 0, time.UTC)
	r := newRig(t, options{before: func(r *rig) {
		r.writer.Write(viewtest.Draw(rand.New(rand.NewPCG(7, 8)), july, 800)...)
		for _, q := range []string{
			"INSERT INTO retired (month, upto, events, at) VALUES (202507, 800, 1, now())",
			"ALTER TABLE " + engine.Rows("events") + " DROP PARTITION ID '202507'",
		} {
			if err := r.svc.deps.ClickHouse.Exec(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
	}})
	for _, span := range [][2]time.Duration{
		{-240 * time.Hour, time.Minute},
		{-50*time.Hour - 7*time.Minute, -3*time.Hour + time.Second},
		{-30 * time.Minute, 100 * time.Hour},
	} {
		from, to := july.Add(span[0]), july.Add(span[1])
		sameSources(t, r, from, to)
		for _, uniques := range []string{"", "exact"} {
			f := sameFunnel(t, r, viewtest.Values(
				"uniques", uniques, "from", from.Format(time.RFC3339Nano), "to", to.Format(time.RFC3339Nano),
			))
			if f.UniqueMethod != "sketch" || f.From.After(from) || f.To.Before(to) || f.Stages[0].Count == 0 {
				t.Errorf("%s to %s: %+v", from, to, f)
			}
		}
	}
}
