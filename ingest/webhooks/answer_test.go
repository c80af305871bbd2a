package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

// TestReports: each status has the end that the documents say, of a row of an upload and of another item.
func TestReports(t *testing.T) {
	after := 7 * time.Second
	for _, c := range []struct {
		answer    Answer
		row, item string
	}{
		{Answer{Status: 200, Body: []byte(" {\"a\":1}\n")}, `done {"a":1}`, `done {"a":1}`},
		{Answer{Status: 201, Body: []byte(`{}`)}, `done {}`, `done {}`},
		{Answer{Status: 204}, `done `, `done `},
		{Answer{Status: 404, Body: []byte("no such product")}, "done not_found", "fail permanent"},
		{Answer{Status: 429, RetryAfter: &after}, "fail throttled h after 7s", "again after 10s"},
		{Answer{Status: 429}, "fail throttled h", "again after 10s"},
		{Answer{Status: 500}, "fail server h", "again after 5s"},
		{Answer{Status: 503, RetryAfter: &after}, "fail server h after 7s", "again after 7s"},
		{Answer{Status: 599}, "fail server h", "again after 5s"},
		{Answer{Status: 408}, "fail network h", "again after 2s"},
		{Answer{Status: 425}, "fail network h", "again after 2s"},
		{Answer{Err: errors.New("reset")}, "fail network h", "again after 2s"},
		{Answer{Err: context.DeadlineExceeded}, "fail network h", "again after 2s"},
		{Answer{Status: 302}, "fail invalid h", "fail permanent"},
		{Answer{Status: 400, RetryAfter: &after}, "fail invalid h", "fail permanent"},
		{Answer{Status: 401}, "fail invalid h", "fail permanent"},
		{Answer{Status: 410}, "fail invalid h", "fail permanent"},
	} {
		for row, want := range map[bool]string{true: c.row, false: c.item} {
			r := c.answer.Report("h", 1, row, standard(t))
			got := r.Report + " " + string(r.Result)
			switch {
			case r.NotFound:
				got += "not_found"
			case r.Permanent:
				got += "permanent"
			case r.Report != "done":
				got = strings.TrimSpace(got + r.Class + " " + r.Domain)
			}
			for _, s := range []*float64{r.RetryAfterS, r.DelayS} {
				if s != nil {
					got += fmt.Sprintf(" after %gs", *s)
				}
			}
			if got != want {
				t.Errorf("%d, a row %t: %q, want %q", c.answer.Status, row, got, want)
			}
			if r.Error == "" && r.Report != "done" {
				t.Errorf("%d has no error", c.answer.Status)
			}
			r.ID, r.Generation = 1, 1
			if broken := userqueue.CheckReport(r); len(broken) > 0 {
				t.Errorf("%d: %+v", c.answer.Status, broken)
			}
		}
	}
}

// TestRetryAfter: seconds and times are read, and neither a past time nor a far one is taken at its word.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	most := item.MaxDelay * time.Second
	for text, want := range map[string]time.Duration{
		"": -1, "soon": -1, "-5": -1, "1.5": -1, "0": 0, "120": 2 * time.Minute, "4294967295": most, "99999999999999999999": -1,
		now.Add(time.Hour).Format(http.TimeFormat): time.Hour, now.Add(-time.Hour).Format(http.TimeFormat): 0,
		"Fri, 31 Dec 9999 23:59:59 GMT": most,
	} {
		got := retryAfter(text, now)
		if got == nil && want >= 0 || got != nil && *got != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
}

// TestQuotes: an error has the beginning of the answer in one line, as text that can be stored.
func TestQuotes(t *testing.T) {
	for body, want := range map[string]string{
		"": "", "a\n\tb\x00c": "a b c", "\xff\xfe": "", strings.Repeat("é", 200): strings.Repeat("é", 150),
		"a" + strings.Repeat("é", 200): "a" + strings.Repeat("é", 149),
	} {
		if got := quote([]byte(body)); got != want {
			t.Errorf("%q: %q", body, got)
		}
	}
}
