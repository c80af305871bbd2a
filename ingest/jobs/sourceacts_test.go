package jobs

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/schemas/source"
)

// fill makes n sources, of which every third is disabled and those before half are of low
// priority, and returns their ids.
func (s *site) fill(n int) (ids []uuid.UUID) {
	s.T.Helper()
	for i := range n {
		f := source.New()
		f.Name, f.URL, f.Enabled = fmt.Sprintf("source %04d", i), fmt.Sprintf("https://example.com/%d", i), i%3 != 0
		if i < n/2 {
			f.Priority = "low"
		}
		made, err := s.Sources.Create(s.T.Context(), f)
		if err != nil {
			s.T.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	return ids
}

func (s *site) number(sql string) (n int) {
	s.T.Helper()
	if err := s.Store.Pool().QueryRow(s.T.Context(), sql).Scan(&n); err != nil {
		s.T.Fatal(err)
	}
	return n
}

// finish takes turns until no act runs, and returns an act as it is then.
func (s *site) finish(id int64) acts.Act {
	s.T.Helper()
	for {
		worked, err := s.Bulk.Step(s.T.Context())
		if err != nil {
			s.T.Fatal(err)
		}
		a, err := s.Bulk.Get(s.T.Context(), id)
		if err != nil {
			s.T.Fatal(err)
		}
		if a.State != acts.Running {
			return a
		}
		if !worked { // a transaction that was cut off still has it
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// TestSourceAct: what a filter matches is changed in turns, each source once with its event, and the
// same request with the same key is the same act.
func TestSourceAct(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	ids := s.fill(1300)
	created := s.number("SELECT count(*) FROM millrace.message_outbox")
	key := http.Header{"Idempotency-Key": {"k"}}
	const disable = `{"move":"disable","filter":{"priority":"low"},"reason":"moved"}`
	var a acts.Act
	for _, want := range []int{201, 200} {
		status, text := s.PostWith(key, "/sources/acts", disable)
		if s.Into(&a, want, status, text); a.Matched != 650 || a.Subject != "sources" || a.Move != "disable" ||
			string(a.Filter) != `{"priority":"low"}` || string(a.Arguments) != `{"reason":"moved"}` {
			t.Fatalf("%s", text)
		}
	}
	for _, other := range []string{
		`{"move":"enable","filter":{"priority":"low"},"reason":"moved"}`,
		`{"move":"disable","filter":{"priority":"high"},"reason":"moved"}`,
		`{"move":"disable","filter":{"priority":"low"}}`,
	} {
		if status, text := s.PostWith(key, "/sources/acts", other); status != 409 || !strings.Contains(text, "Idempotency-Key") {
			t.Errorf("%s with the key of another: %d %s", other, status, text)
		}
	}
	// One is gone when its turn comes, and one is of another priority.
	if err := s.Sources.Delete(t.Context(), ids[1], "why"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sources.Update(t.Context(), ids[2], source.ReadDraft([]byte(`{"priority":"high"}`))); err != nil {
		t.Fatal(err)
	}
	a = s.finish(a.ID)
	if a.Done != 648 || a.Skipped != 2 || a.Failed != 0 || a.Left != 0 {
		t.Errorf("%+v", a)
	}
	if n := s.number("SELECT count(*) FROM millrace.source WHERE priority = 'low' AND enabled"); n != 0 {
		t.Errorf("%d are still enabled", n)
	}
	// 650 sources of low priority, of which 217 were disabled, one is deleted and one is high.
	events := s.number(`SELECT count(*) FROM millrace.message_outbox WHERE subject = 'sources.SOURCE_DISABLED'
		AND convert_from(body, 'UTF8')::json -> 'payload' ->> 'reason' = 'moved'`)
	if events != 650-217-2 {
		t.Errorf("%d events of %d after %d", events, 650-217-2, created)
	}
	members, err := s.Bulk.Members(t.Context(), a.ID)
	if err != nil || len(members) != 2 || members[0].Reason != acts.Gone.Reason ||
		members[1].Reason != acts.Unmatched.Reason || !strings.Contains(string(members[1].Details), `"source 0002"`) {
		t.Errorf("%+v, %v", members, err)
	}
}

// TestSourceActRules: what cannot be is refused with its field, nothing matches without an error, and
// an empty filter is all.
func TestSourceActRules(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	s.fill(30)
	for _, c := range []struct{ body, field string }{
		{`{"move":"mend","filter":{}}`, "move"},
		{`{"move":"delete"}`, "filter"},
		{`{"filter":{}}`, "move"},
		{`{"move":"delete","filter":{"priority":"lowest"}}`, "priority"},
		{`{"move":"delete","filter":{"enabled":true}}`, "enabled"},
		{`{"move":"delete","filter":{"colour":"red"}}`, "colour"},
		{`{"move":"delete","filter":{"q":"\u0000"}}`, `"filter.q"`},
		{`{"move":"delete","filter":{"q":""}}`, `"filter.q"`},
		{`{"move":"delete","filter":{"q":null}}`, `"filter.q"`},
		{`{"move":"delete","filter":{"enabled":null}}`, `"filter.enabled"`},
		{`{"move":"delete","filter":{"q":"` + strings.Repeat("a", 2049) + `"}}`, `"filter.q"`},
		{`{"move":"delete","filter":{},"reason":"\u0000"}`, "reason"},
	} {
		if status, text := s.Post("/sources/acts", c.body); status != 400 || !strings.Contains(text, c.field) {
			t.Errorf("%s: %d %s, want 400 and %s", c.body, status, text, c.field)
		}
	}
	if n := s.number("SELECT count(*) FROM millrace.act"); n != 0 {
		t.Errorf("%d acts were begun", n)
	}
	var a acts.Act
	status, text := s.Post("/sources/acts", `{"move":"delete","filter":{"q":"nothing is called so"}}`)
	if s.Into(&a, 201, status, text); a.Matched != 0 || a.State != acts.Finished {
		t.Errorf("nothing matched: %s", text)
	}
	status, text = s.Post("/sources/acts", `{"move":"delete","filter":{}}`)
	if s.Into(&a, 201, status, text); a.Matched != 30 {
		t.Errorf("all: %s", text)
	}
	if a = s.finish(a.ID); a.Done != 30 || s.number("SELECT count(*) FROM millrace.source") != 0 {
		t.Errorf("%+v", a)
	}
}

// TestSourceActCutOff: a turn that is cut off anywhere was taken whole with its events or not at all.
func TestSourceActCutOff(t *testing.T) {
	s := serve(t, auth.New(auth.Config{}))
	s.fill(1600)
	a, _, err := s.Bulk.Begin(t.Context(), acts.Request{
		Subject: sources.Subject, Move: sources.OpDelete, Filter: sources.SourceFilter{}, Arguments: sources.Why{Reason: "why"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		_, _ = s.Bulk.Step(ctx)
		cancel()
		if n := s.number(`SELECT count(*) FROM millrace.act AS a,
			LATERAL (SELECT 1600 - count(*) AS n FROM millrace.source) AS gone,
			LATERAL (SELECT count(*) AS n FROM millrace.message_outbox WHERE subject = 'sources.SOURCE_DELETED') AS told,
			LATERAL (SELECT coalesce(sum(cardinality(members)), 0) AS n FROM millrace.act_batch) AS waiting
			WHERE a.done = gone.n AND a.done = told.n AND a.matched - a.done = waiting.n`); n != 1 {
			t.Fatal("the record does not say what was done")
		}
	}
	if a = s.finish(a.ID); a.Done != 1600 || s.number("SELECT count(*) FROM millrace.source") != 0 {
		t.Errorf("%+v", a)
	}
}

// TestSourceActScope: only operators begin acts, and the key of one is not that of another.
func TestSourceActScope(t *testing.T) {
	s := serve(t, auth.New(auth.Config{Secret: trackingtest.Secret}))
	s.fill(3)
	s.CheckActScope("/sources/acts", `{"move":"delete","filter":{}}`)
}
