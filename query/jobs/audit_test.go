package jobs

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/ledger"
)

// TestAudit asks over HTTP about a job whose schedule has ended, and none of whose two
// due times has a row.
func TestAudit(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	id := uuid.New()
	_, err := s.Store.Pool().Exec(t.Context(), `INSERT INTO millrace.job_schedule (job_id, version, from_at,
		to_at, paused, kind,
		anchor_at, interval_minutes, time_zone, reason) VALUES
		($1, 1, '2026-02-10T00:00Z', '2026-02-10T02:00Z', false, 'interval', '2026-02-10T00:30Z', 60, 'UTC',
			'created')`, id)
	if err != nil {
		t.Fatal(err)
	}
	var got ledger.JobAudit
	status, text := s.Get("/jobs/audit?from=2026-02-10T00:00:00Z&to=2026-02-11T00:00:00Z")
	s.Into(&got, 200, status, text)
	if got.Jobs != 1 || got.Due != 2 || got.Missed != 2 || len(got.Findings) != 2 || got.Findings[0].JobID != id {
		t.Errorf("%+v", got)
	}
	for query, field := range map[string]string{
		"": "from", "?from=2026-02-10T00:00:00Z": "to",
		"?from=2026-02-10T00:00:00Z&to=2026-02-09T00:00:00Z": "after from",
		"?from=x&to=2026-02-09T00:00:00Z":                    "from",
	} {
		if status, text := s.Get("/jobs/audit" + query); status/100 != 4 || !strings.Contains(text, field) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}

// TestUpcoming asks for the due times of a job around a change of clocks.
func TestUpcoming(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	id := uuid.New()
	for _, sql := range []string{
		`INSERT INTO millrace.job_settings (id, source_id, source_name, url, rate_limit, max_depth, selectors,
			auto_managed, origin, schedule_kind, cron, time_zone, interval_minutes, interval_type, max_concurrent,
			crawl_window_start, crawl_window_end, crawl_window_zone)
		VALUES ($1, $1, 'news', 'https://example.com', 10, 1, '{}', true, 'event',
			'cron', '30 2 * * *', 'Europe/Berlin', 60, 'hours', 1, 2, 3, 'Europe/Berlin')`,
		`INSERT INTO millrace.job_status (id, status, next_run_at, priority)
		VALUES ($1, 'pending', '2100-03-27 01:30Z', 50)`,
		`INSERT INTO millrace.job_schedule (job_id, version, from_at, paused, kind, cron, time_zone, reason)
		VALUES ($1, 1, '2026-02-10T00:00Z', false, 'cron', '30 2 * * *', 'Europe/Berlin', 'created')`,
	} {
		if _, err := s.Store.Pool().Exec(t.Context(), sql, id); err != nil {
			t.Fatal(err)
		}
	}
	status, text := s.Get("/jobs/" + id.String() + "/upcoming?limit=3")
	want := `{"paused":false,"time_zone":"Europe/Berlin","items":[` +
		`{"due_at":"2100-03-27T02:30:00+01:00","clock_shift_s":0,"in_window":true,"outcome":"ran",` +
		`"run_at":"2100-03-27T02:30:00+01:00"},` +
		`{"due_at":"2100-03-28T03:00:00+02:00","clock_shift_s":3600,"in_window":false,"outcome":"outside_window",` +
		`"run_at":null},` +
		`{"due_at":"2100-03-29T02:30:00+02:00","clock_shift_s":0,"in_window":true,"outcome":"ran",` +
		`"run_at":"2100-03-29T02:30:00+02:00"}]}`
	if status != 200 || text != want {
		t.Errorf("%d %s, want %s", status, text, want)
	}
	for _, c := range []struct{ set, want string }{
		// It fails at 03:00: the 28th and the 29th are within the backoff, and the latter runs at its end.
		{
			"backoff_until = '2100-03-29 00:45Z'",
			"27 backoff, 28 outside_window, 29 ran 2100-03-29T02:45:00+02:00, 30 ran 2100-03-30T02:30:00+02:00",
		},
		// The window is closed when the backoff ends.
		{
			"backoff_until = '2100-03-29 10:00Z'",
			"27 backoff, 28 outside_window, 29 backoff, 30 ran 2100-03-30T02:30:00+02:00",
		},
		{
			"backoff_until = '2100-03-27 00:45Z', resting_due_at = '2100-03-26 01:30Z', next_run_at = '2100-03-27 01:30Z'",
			"26 backoff, 27 ran 2100-03-27T02:30:00+01:00, 28 outside_window, 29 ran 2100-03-29T02:30:00+02:00",
		},
		{
			"backoff_until = '2100-03-27 01:15Z', resting_due_at = '2100-03-26 01:30Z', next_run_at = '2100-03-27 01:30Z'",
			"26 ran 2100-03-27T02:15:00+01:00, 27 ran 2100-03-27T02:30:00+01:00, 28 outside_window, " +
				"29 ran 2100-03-29T02:30:00+02:00",
		},
		{
			"backoff_until = NULL, resting_due_at = NULL, skip_next = true",
			"27 skipped, 28 outside_window, 29 ran 2100-03-29T02:30:00+02:00, 30 ran 2100-03-30T02:30:00+02:00",
		},
		{
			"status = 'paused', paused_by = 'user'",
			"27 paused, 28 paused, 29 paused, 30 paused",
		},
	} {
		if _, err := s.Store.Pool().Exec(t.Context(), "UPDATE millrace.job_status SET "+c.set); err != nil {
			t.Fatal(err)
		}
		var got ledger.Upcoming
		status, text := s.Get("/jobs/" + id.String() + "/upcoming?limit=4")
		s.Into(&got, 200, status, text)
		var shown []string
		for _, item := range got.Items {
			at := ""
			if item.RunAt != nil {
				at = item.RunAt.Format(" 2006-01-02T15:04:05Z07:00")
			}
			shown = append(shown, item.DueAt.Format("2 ")+item.Outcome+at)
		}
		if text := strings.Join(shown, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.set, text, c.want)
		}
	}
	if status,
		text := s.Get("/jobs/" + uuid.NewString() + "/upcoming"); status != 404 ||
		!strings.Contains(text, "must be that of a job") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := s.Get("/jobs/x/upcoming"); status/100 != 4 || !strings.Contains(text, "UUID") {
		t.Errorf("%d %s", status, text)
	}
}
