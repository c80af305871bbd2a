package emit

import (
	"bytes"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestAllFaults: a line that breaks several rules is told all of them, misspelt
// metadata among them.
func TestAllFaults(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	var errs bytes.Buffer
	in := `{"article_url":"https://example.com/","stage":"cooked","occurred_at":"now","service_name":"c",` +
		`"metadata":{"qualityScore":1}}` + "\n" +
		strings.Replace(line(1), `{"n":1}`, `{"model_vesion":"v1"}`, 1) + "\n" + line(2)
	want(t, run(t, s, strings.NewReader(in), Config{Errors: &errs}), 1, 0, 2)
	for n, rules := range [][]string{
		{
			"occurred_at: must be", "(time_format)", "source_name: is required", "stage: must be one of",
			"metadata.qualityScore: ", "write quality_score", "(metadata_misspelt)",
		},
		{"line 2: metadata.model_vesion: ", "write model_version"},
	} {
		told := strings.Split(errs.String(), "\n")[n]
		if slices.ContainsFunc(rules, func(rule string) bool { return !strings.Contains(told, rule) }) {
			t.Errorf("line %d is told %s; want %q in it", n+1, told, rules)
		}
	}
}

// TestProgress: without a terminal the log gets a line now and then, and less
// often the longer it takes; on one the bar counts.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		counts := newTally(Config{
			Log: slog.New(slog.NewTextHandler(&log, nil)), Errors: io.Discard,
			Rejects: io.Discard, Size: 1000,
		})
		for range 10 * 60 {
			time.Sleep(time.Second) // takes no time in here
			counts.reject(1, nil)
			counts.published([]client.Outcome{{Status: client.Accepted}, {Status: client.Duplicate}}, 1)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) < 10 || len(lines) > 15 ||
			!strings.Contains(lines[0], `msg="publishing events" accepted=2 duplicates=2 rejected=2 percent=0`) ||
			!strings.Contains(lines[len(lines)-1], "percent=5") {
			t.Errorf("%d lines in ten minutes:\n%s", len(lines), log.String())
		}
		var bar bytes.Buffer
		counts = newTally(Config{Progress: &bar, Errors: io.Discard, Rejects: io.Discard, Size: 1000})
		for range 3 {
			time.Sleep(time.Second)
			counts.reject(1, nil)
			counts.published([]client.Outcome{{Status: client.Accepted}, {Status: client.Duplicate}}, 1)
		}
		if !strings.Contains(bar.String(), "emit: 6 events, 3 rejected") {
			t.Errorf("the bar: %q", bar.String())
		}
	})
}

// TestSilence: a server that stays away ends the run after the time given, and the
// error says how long that was and what the last attempt met.
func TestSilence(t *testing.T) {
	s := natstest.Start(t, stream.Config{})
	nc := s.Connect()
	s.Stop()
	begin := time.Now()
	report, err := Run(t.Context(), strings.NewReader(line(1)),
		Config{NATS: nc, Stages: stages(t), Wait: 300 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "line 1 is not published") ||
		!strings.Contains(err.Error(), "silent for 300ms") {
		t.Errorf("%v", err)
	}
	if took := time.Since(begin); report.Lines() != 0 || took < 300*time.Millisecond {
		t.Errorf("%v after %s", report, took)
	}
}
