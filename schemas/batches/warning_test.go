package batches

import (
	"slices"
	"testing"
)

func TestWarnings(t *testing.T) {
	of := func(n int, also ...Outcome) []Outcome { return append(make([]Outcome, n), also...) }
	job := ID{"p-brand-0", 1}
	for name, c := range map[string]struct {
		a        Announcement
		outcomes []Outcome
		want     []string
	}{
		"as usual":        {Announcement{Platform: "tiktok", Count: 50}, of(50), nil},
		"in capitals":     {Announcement{Platform: "TikTok", Count: -1}, of(50), nil},
		"another":         {Announcement{Platform: "youtube", Count: 20}, of(20), nil},
		"unexpected":      {Announcement{Platform: "youtube", Count: 50}, of(50), []string{CountUnexpected}},
		"fewer":           {Announcement{Platform: "tiktok", Count: 50}, of(48), []string{CountAnnounced, CountUnexpected}},
		"more":            {Announcement{Count: 19}, of(20), []string{CountAnnounced}},
		"none":            {Announcement{Count: 0}, nil, []string{CountUnexpected}},
		"project":         {Announcement{Batch: job, Project: "p", Count: -1}, of(20), nil},
		"another project": {Announcement{Batch: job, Project: "q", Count: -1}, of(20), []string{ProjectDiffers}},
		"of a dry run":    {Announcement{Project: "q", Count: -1}, of(20), []string{ProjectDiffers}},
		"times":           {Announcement{Count: -1}, of(19, Outcome{BadTime: true}), []string{TimeUnread}},
	} {
		var got []string
		for _, w := range c.a.Warnings(c.outcomes) {
			got = append(got, w.Code)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
