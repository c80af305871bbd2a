package jobs

import (
	"errors"
	"time"

	"github.com/millrace-io/millrace/schemas/job"
)

var errNoCron = errors.New("cron schedules are not supported yet")

func nextCron(job.Schedule, time.Time) (time.Time, error) { return time.Time{}, errNoCron }

// CheckCron notes in a draft that it may not have a cron expression.
func CheckCron(d *job.Draft) {
	if expression, _ := d.Cron(); expression != nil {
		d.Refuse("cron", "cron", errNoCron.Error())
	}
}
