package jobs

import (
	"errors"
	"time"

	"github.com/millrace-io/millrace/internal/schedule"
	"github.com/millrace-io/millrace/schemas/job"
)

// errNever is the error of a cron expression that is not due again.
var errNever = errors.New("the cron expression is never due again")

// nextCron is the first due time of a cron schedule after a time.
func nextCron(s job.CrawlSchedule, after time.Time) (time.Time, error) {
	recurring, broken := schedule.Spec{Cron: s.Cron, Zone: s.TimeZone}.Compile()
	if len(broken) > 0 {
		return time.Time{}, &broken[0]
	}
	next := recurring.Next(after)
	if next.IsZero() {
		return time.Time{}, errNever
	}
	return next.UTC(), nil
}

// CheckCron notes in a draft what is wrong with its cron expression, if it has one.
func CheckCron(d *job.Draft) {
	expression, zone := d.Cron()
	if expression == nil {
		return
	}
	spec := schedule.Spec{Cron: *expression}
	if *expression == "" {
		d.Refuse("cron", "cron", "must not be empty")
		return
	}
	if zone != nil {
		spec.Zone = *zone
	}
	_, broken := spec.Compile()
	for _, b := range broken {
		if b.Field == "cron" { // the draft checks its zone itself
			d.Refuse(b.Field, b.Code, b.Rule)
		}
	}
}
