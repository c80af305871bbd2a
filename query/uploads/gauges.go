package uploads

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/internal/uploads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// gaugesEvery is how old the numbers of uploads may be.
const gaugesEvery = 30 * time.Second

// Gauges returns uploads in numbers.
func Gauges(store *uploads.Store) sampler.Source {
	jobs := sampler.NewGauge("millrace_uploads_jobs", "Uploads by their state.", "queue_state")
	pending := sampler.NewGauge("millrace_uploads_pending_count", "Items that are PENDING or PROCESSING, of all uploads.")
	depth := sampler.NewGauge("millrace_uploads_queue_depth", "Items that are PENDING, of all uploads.")
	rate := sampler.NewGauge("millrace_uploads_items_sec", "Items a second that got a final status since the last reading.")
	errs := sampler.NewGauge("millrace_uploads_error_rate",
		"Share of the processed items that are ERROR, of uploads that are open or ended within an hour; absent without any.")
	missing := sampler.NewGauge("millrace_uploads_not_found_rate", "The same for NOT_FOUND.")
	silent := sampler.NewGauge("millrace_uploads_silent_seconds",
		"For how long no process has done anything for an upload that is QUEUED or RUNNING, at most.")
	export := sampler.NewGauge("millrace_uploads_export_age_seconds",
		"How long ago the oldest export that is not made yet was asked for; 0: there is none.")
	var last uploads.Totals
	var at time.Time
	return sampler.Source{
		Name: "uploads", Gauges: []*sampler.Gauge{jobs, pending, depth, rate, errs, missing, silent, export}, Every: gaugesEvery,
		Read: func(ctx context.Context, set sampler.Set) error {
			now := time.Now()
			t, err := store.Totals(ctx)
			if err != nil {
				return err
			}
			for _, state := range schema.States {
				set(jobs, float64(t.Jobs[state]), state)
			}
			set(pending, float64(t.Pending+t.Processing))
			set(depth, float64(t.Pending))
			set(silent, t.Silent.Seconds())
			set(export, t.Export.Seconds())
			if t.Recent > 0 {
				set(errs, float64(t.Errors)/float64(t.Recent))
				set(missing, float64(t.NotFound)/float64(t.Recent))
			}
			if !at.IsZero() { // what was deleted, or is processed again, has the number fall
				set(rate, float64(max(t.Ended-last.Ended, 0))/max(now.Sub(at).Seconds(), 1e-3))
			}
			last, at = t, now
			return nil
		},
	}
}
