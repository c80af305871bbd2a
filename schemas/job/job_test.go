package job

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDraft: each setting is answered by its name and the rule that it breaks.
func TestDraft(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                  "",
		`{"interval_minutes":1,"priority":0}`: "",
		`{"interval_minutes":527040,"priority":100,"max_concurrent":100,"jitter_seconds":3600,"auto_managed":false}`: "",
		`{"cron":"0 6 * * *","time_zone":"Europe/Berlin","overlap_policy":"allow","catch_up_policy":"recent"}`:       "",
		`{"crawl_window":{"start_hour":22,"end_hour":6,"days":[5,1,5],"time_zone":"America/New_York"}}`:              "",
		`{"crawl_window":{"start_hour":0,"end_hour":0}}`:                                                             "",
		`{"interval_minutes":null,"crawl_window":null,"cron":null}`:                                                  "",

		``:                            "=json",
		`null`:                        "=json",
		`[]`:                          "=json",
		`{"interval":5}`:              "interval=field_unknown",
		`{"interval_minutes":0}`:      "interval_minutes=range",
		`{"interval_minutes":527041}`: "interval_minutes=range",
		`{"interval_minutes":1.5}`:    "interval_minutes=type",
		`{"interval_minutes":"5"}`:    "interval_minutes=type",
		`{"interval_minutes":99999999999999999999999}`: "interval_minutes=range",
		`{"priority":101,"max_concurrent":0}`:          "priority=range max_concurrent=range",
		`{"priority":"high"}`:                          "priority=type",
		`{"auto_managed":null}`:                        "auto_managed=type",
		`{"auto_managed":1}`:                           "auto_managed=type",
		`{"overlap_policy":"wait"}`:                    "overlap_policy=overlap_policy_unknown",
		`{"catch_up_policy":5}`:                        "catch_up_policy=type",
		`{"time_zone":"Mars/Olympus"}`:                 "time_zone=time_zone",
		`{"time_zone":"Local"}`:                        "time_zone=time_zone",
		`{"cron":"0 6 * * *","interval_minutes":5}`:    "cron=conflict",
		`{"crawl_window":"night"}`:                     "crawl_window=type",
		`{"crawl_window":{"start_hour":1,"end":2}}`:    "crawl_window.end_hour=missing crawl_window.end=field_unknown",
		`{"crawl_window":{}}`: "crawl_window.start_hour=missing " +
			"crawl_window.end_hour=missing",
		`{"crawl_window":{"start_hour":24,"end_hour":null}}`: "crawl_window.start_hour=range " +
			"crawl_window.end_hour=type",
		`{"crawl_window":{"start_hour":1,"end_hour":2,"days":[7]}}`:         "crawl_window.days[0]=range",
		`{"crawl_window":{"start_hour":1,"end_hour":2,"time_zone":"Moon"}}`: "crawl_window.time_zone=time_zone",
	} {
		var got []string
		for _, b := range ReadDraft([]byte(text)).Broken() {
			got = append(got, b.Field+"="+b.Code)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s\nbreaks %q, want %q", text, got, want)
		}
	}
}

// TestOver: what a draft gives counts, null is back to what is computed, and all else
// stays.
func TestOver(t *testing.T) {
	var o Overrides
	for _, c := range [][2]string{
		{`{"interval_minutes":5,"priority":90}`, `{"interval_minutes":5,"priority":90}`},
		{`{"max_concurrent":2}`, `{"interval_minutes":5,"priority":90,"max_concurrent":2}`},
		{
			`{"cron":"0 6 * * *","time_zone":"Europe/Berlin"}`,
			`{"cron":"0 6 * * *","time_zone":"Europe/Berlin","priority":90,"max_concurrent":2}`,
		},
		{`{"priority":null}`, `{"cron":"0 6 * * *","time_zone":"Europe/Berlin","max_concurrent":2}`},
		{`{"interval_minutes":7,"max_concurrent":null}`, `{"interval_minutes":7}`},
		{
			`{"crawl_window":{"start_hour":22,"end_hour":6,"days":[5,1]}}`,
			`{"interval_minutes":7,"crawl_window":{"start_hour":22,"end_hour":6,"days":[1,5],"time_zone":"UTC"}}`,
		},
		{
			`{"crawl_window":{"start_hour":22,"end_hour":6,"days":["fri","MONDAY",1,"Sun"]}}`,
			`{"interval_minutes":7,"crawl_window":{"start_hour":22,"end_hour":6,"days":[0,1,5],"time_zone":"UTC"}}`,
		},
		{`{"crawl_window":null,"interval_minutes":null,"jitter_seconds":3}`, `{"jitter_seconds":3}`},
	} {
		o = ReadDraft([]byte(c[0])).Over(o)
		text, err := json.Marshal(o)
		if err != nil || string(text) != c[1] {
			t.Errorf("after %s: %s, %v, want %s", c[0], text, err, c[1])
		}
	}
	s := o.Over(Defaults())
	if want := Defaults(); s.JitterSeconds != 3 || s.OverlapPolicy != want.OverlapPolicy {
		t.Errorf("%+v", s)
	}
}

// TestHealth holds the rules of health, with their bounds.
func TestHealth(t *testing.T) {
	for _, c := range []struct {
		status         string
		ended          bool
		inARow         int
		runs, failures int64
		want           string
	}{
		{Pending, false, 0, 0, 0, Unknown},
		{Running, false, 0, 0, 0, Unknown},
		{Pending, true, 0, 0, 0, Healthy},
		{Paused, true, 0, 10, 1, Healthy},
		{Pending, false, 0, 10, 1, Healthy},
		{Pending, true, 0, 10, 2, Warning},
		{Pending, true, 0, 47, 1, Healthy},
		{Running, true, 1, 47, 1, Warning},
		{Pending, false, 1, 0, 0, Warning},
		{Pending, true, 2, 2, 2, Warning},
		{Pending, true, 3, 100, 3, Failed},
		{Failed, true, 5, 5, 5, Failed},
		{Orphaned, false, 0, 10, 0, Failed},
	} {
		if got := HealthOf(c.status, c.ended, c.inARow, c.runs, c.failures); got != c.want {
			t.Errorf("%+v is %s", c, got)
		}
	}
	for _, c := range []struct {
		runs, failures int64
		want           float64
	}{{47, 1, 0.979}, {4231, 42, 0.990}, {3, 3, 0}, {3, 1, 0.667}} {
		if got := Rate(c.runs, c.failures); *got != c.want {
			t.Errorf("of %d runs, %d failed: %v", c.runs, c.failures, *got)
		}
	}
	if Rate(0, 0) != nil {
		t.Error("no runs have a rate")
	}
}

// TestStatus: a run under way counts before failures.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		running, failures int
		want              string
	}{{0, 0, Pending}, {0, FailedAfter - 1, Pending}, {0, FailedAfter, Failed}, {1, FailedAfter, Running}} {
		if got := Status(c.running, c.failures); got != c.want {
			t.Errorf("%+v is %s", c, got)
		}
	}
}

// FuzzDraft: whatever is read breaks a rule, or settings that are within their bounds.
func FuzzDraft(f *testing.F) {
	f.Add([]byte(`{"interval_minutes":5,"crawl_window":{"start_hour":1,"end_hour":2,"days":[1]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := ReadDraft(text)
		if len(d.Broken()) > 0 {
			return
		}
		o := d.Over(Overrides{})
		again, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if broken := ReadDraft(again).Broken(); len(broken) > 0 {
			t.Fatalf("%s: %v", again, broken)
		}
		if s := o.Over(Defaults()); o.IntervalMinutes != nil && (s.IntervalMinutes < 1 || s.IntervalMinutes > 527040) {
			t.Fatalf("%+v", s)
		}
	})
}
