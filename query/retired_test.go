package query

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestFunnelOfRetiredEvents holds that windows whose single events are gone
// are answered from the rows of the funnel, and say for what span.
func TestFunnelOfRetiredEvents(t *testing.T) {
	july := time.Date(2025, 7, 31, 23, 50, 0, 0, time.UTC)
	r := newRig(t, Config{}, "", func(r *rig) {
		r.writer.Write(draw(rand.New(rand.NewPCG(7, 8)), july, 800)...)
		for _, q := range []string{"INSERT INTO retired (month, upto, events, at) VALUES (202507, 800, 1, now())", "ALTER TABLE events DROP PARTITION ID '202507'"} {
			if err := r.svc.deps.ClickHouse.Exec(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, span := range [][2]time.Duration{
		{-240 * time.Hour, time.Minute},
		{-50*time.Hour - 7*time.Minute, -3*time.Hour + time.Second},
		{-30 * time.Minute, 100 * time.Hour},
	} {
		from, to := july.Add(span[0]), july.Add(span[1])
		for _, uniques := range []string{"", "exact"} {
			f := sameFunnel(t, r, values("uniques", uniques, "from", from.Format(time.RFC3339Nano), "to", to.Format(time.RFC3339Nano)))
			if f.UniqueMethod != "sketch" || f.From.After(from) || f.To.Before(to) || f.Stages[0].Count == 0 {
				t.Errorf("%s to %s: %+v", from, to, f)
			}
		}
	}
}
