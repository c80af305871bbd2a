package batches

import (
	"fmt"
	"strings"
)

// Codes of warnings.
const (
	CountAnnounced  = "count_announced"  // another number of items than the message says
	CountUnexpected = "count_unexpected" // another number than batches of the platform have
	ProjectDiffers  = "project_differs"  // the message names another project than the job does
	TimeUnread      = "time_unread"      // crawled_at of some items is no time
)

// Warning says what is unusual about a batch. It fails nothing.
type Warning struct{ Code, Text string }

// usual is how many items a batch has.
func usual(platform string) int {
	if strings.EqualFold(platform, "tiktok") {
		return 50
	}
	return 20
}

// Warnings returns what is unusual about a batch with these outcomes.
func (a Announcement) Warnings(outcomes []Outcome) (found []Warning) {
	warn := func(code, format string, of ...any) {
		found = append(found, Warning{code, fmt.Sprintf(format, of...)})
	}
	n := len(outcomes)
	if a.Count >= 0 && n != a.Count {
		warn(CountAnnounced, "the batch has %d items, and %d were announced", n, a.Count)
	}
	if want := usual(a.Platform); n != want {
		warn(CountUnexpected, "the batch has %d items, and batches of the platform %q have %d", n, a.Platform, want)
	}
	if project := ProjectOf(a.Batch.Job); a.Project != "" && a.Project != project {
		warn(ProjectDiffers, "the message names the project %q, and the job the project %q, which counts", a.Project,
			project)
	}
	unread := 0
	for _, o := range outcomes {
		if o.BadTime {
			unread++
		}
	}
	if unread > 0 {
		warn(TimeUnread, "crawled_at of %d items is not read: it must be an RFC 3339 time of the years %d to %d, such "+
			"as 2026-02-10T14:30:00Z", unread, firstYear, lastYear)
	}
	return found
}
