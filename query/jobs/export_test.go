package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// TestExport: an export has each source that its filters select, once.
func TestExport(t *testing.T) {
	slowtest.Mark(t)
	s := serve(t, auth.New(auth.Config{}))
	var all, low []string
	for i := range exportPage + 5 {
		priority := source.Priorities[i%2]
		made := s.create(fmt.Sprintf(`{"name":"n%d","url":"https://example.com/%d","priority":%q}`, i, i, priority))
		all = append(all, made.Name)
		if priority == "low" {
			low = append(low, made.Name)
		}
	}
	for _, format := range sources.ListFormats {
		for filter, want := range map[string][]string{
			"": all, "&priority=low": low, "&q=n1004": {"n1004"},
			"&enabled=false": nil,
		} {
			status, text := s.Get("/sources/export?format=" + format + filter)
			var got []string
			_, err := sources.ReadList(format, strings.NewReader(text), func(l sources.ListLine) error {
				got = append(got, l.Draft.Over(source.New()).Name)
				if len(l.Draft.BrokenAlone()) > 0 {
					return errors.New("breaks a rule")
				}
				return nil
			})
			if status != 200 || err != nil || !slices.Equal(got, want) {
				t.Errorf("%s%s: %d, %v, %d sources, want %d", format, filter, status, err, len(got), len(want))
			}
		}
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := s.Store.Pool().Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO millrace.job_settings (id, source_id, source_name, url, rate_limit, max_depth, selectors,
			auto_managed, origin, schedule_kind, interval_minutes, interval_type, max_concurrent, override)
		SELECT id, id, name, url, 10, 1, '{}', true, 'event', 'interval', 60, 'hours', 1,
			'{"cron":"0 6 * * mon","time_zone":"Europe/Berlin","jitter_seconds":90}'
		FROM millrace.source WHERE name = 'n7'`)
	exec(`INSERT INTO millrace.job_status (id, status, next_run_at, priority)
		SELECT id, 'pending', now(), 50 FROM millrace.job_settings`)
	for _, format := range sources.ListFormats {
		_, text := s.Get("/sources/export?q=n7&format=" + format)
		found := 0
		_, err := sources.ReadList(format, strings.NewReader(text), func(l sources.ListLine) error {
			name := l.Draft.Over(source.New()).Name
			if (name == "n7") != (l.Job != nil) {
				return fmt.Errorf("%s: %v", name, l.Job)
			}
			if l.Job != nil {
				o := l.Job.Over(job.Overrides{})
				if found++; *o.Cron != "0 6 * * mon" || *o.TimeZone != "Europe/Berlin" || *o.JitterSeconds != 90 {
					return fmt.Errorf("%+v", o)
				}
			}
			return nil
		})
		if err != nil || found != 1 {
			t.Errorf("%s: %d sources with settings of jobs, %v", format, found, err)
		}
	}
	for query, field := range map[string]string{
		"": "format", "?format=xls": "format", "?format=csv&enabled=yes": "enabled",
		"?format=csv&priority=x": "priority",
		"?format=csv&q=%ff":      "q", "?format=csv&limit=1": "limit",
	} {
		if status, text := s.Get("/sources/export" + query); status != 400 ||
			!strings.Contains(text, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}
