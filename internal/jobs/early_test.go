package jobs

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// after returns an event whose time is after the stream took it.
func (s *site) after(d time.Duration, kind string, id uuid.UUID, payload any) Event {
	e := s.event(kind, id, payload)
	e.Timestamp = e.Stored.Add(d)
	return e
}

var (
	far    = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	faster = source.Update{ChangedFields: []string{"rate_limit"}, Current: map[string]any{"rate_limit": 999}}
)

// TestEarly holds invariant 6: an event from the future is dead and changes nothing,
// and those after it count.
func TestEarly(t *testing.T) {
	s := newSite(t)
	s.hand(Applied, s.after(source.ClockSkew, source.Created, uuid.New(), example))
	id, made := s.created()
	for _, d := range []time.Duration{source.ClockSkew + 1, far.Sub(began)} {
		s.hand(Dead, s.after(d, source.Updated, id, faster))
		s.hand(Dead, s.after(d, source.Disabled, id, source.Toggle{}))
		s.hand(Dead, s.after(d, source.Deleted, id, source.Deletion{}))
		other := uuid.New()
		s.hand(Dead, s.after(d, source.Created, other, example))
		s.none(other)
		if j := s.job(id); j.Version != made.Version || j.Status != job.Pending {
			t.Errorf("%s in the future: %+v", d, j)
		}
	}
	s.hand(Applied, s.event(source.Disabled, id, source.Toggle{}))
	if j := s.job(id); j.Status != job.Paused {
		t.Errorf("%+v", j)
	}
}

// TestEarlyOfOwn holds invariant 6 for sources of the table: whatever an event from the
// future says, the job has what the table has.
func TestEarlyOfOwn(t *testing.T) {
	s := newSite(t)
	id := uuid.New()
	s.insert(id, example)
	s.hand(Applied, s.after(time.Hour, source.Created, id, example)) // told by a clock that is wrong
	s.exec("UPDATE millrace.source SET rate_limit = 3")
	s.hand(Dead, s.after(time.Hour, source.Updated, id, faster), s.after(time.Hour, source.Disabled, id, source.Toggle{}),
		s.after(time.Hour, source.Deleted, id, source.Deletion{}))
	if j := s.job(id); j.RateLimit != 3 || j.Status != job.Pending {
		t.Errorf("%+v", j)
	}
	s.exec("UPDATE millrace.source SET rate_limit = 999")
	s.hand(Applied, s.after(time.Hour, source.Updated, id, faster))
	if j := s.job(id); j.RateLimit != 999 {
		t.Errorf("%+v", j)
	}
	s.exec("DELETE FROM millrace.source")
	s.hand(Dead, s.after(time.Hour, source.Updated, id, faster))
	s.hand(Applied, s.after(time.Hour, source.Deleted, id, source.Deletion{}))
	s.none(id)
	schedules(t, s.Store)
}

// TestForgedDeletion holds invariant 7: a source that is in the table has its job back with the next
// change, whatever an event has told of a deletion, and by reconciliation without one.
func TestForgedDeletion(t *testing.T) {
	s := newSite(t)
	deleted := func() uuid.UUID {
		id := uuid.New()
		s.insert(id, example)
		s.hand(Applied, s.event(source.Created, id, example), s.event(source.Deleted, id, source.Deletion{}))
		s.none(id)
		// As releases stored it that took events from the future.
		s.exec("UPDATE millrace.source_state SET last_event_at = $2 WHERE source_id = $1", id, far)
		return id
	}
	change := func(id uuid.UUID) {
		t.Helper()
		s.exec("UPDATE millrace.source SET rate_limit = 999, enabled = false WHERE id = $1", id)
		s.hand(Applied, s.event(source.Updated, id, faster), s.event(source.Disabled, id, source.Toggle{}))
		if j := s.job(id); j.RateLimit != 999 || j.Status != job.Paused {
			t.Errorf("%+v", j)
		}
	}
	id := deleted()
	s.exec("UPDATE millrace.source SET max_depth = 4 WHERE id = $1", id)
	s.hand(Applied, s.event(source.Updated, id, source.Update{
		ChangedFields: []string{"max_depth"}, Current: map[string]any{"max_depth": 4},
	}))
	if j := s.job(id); j.MaxDepth != 4 || j.Status != job.Pending {
		t.Errorf("%+v", j)
	}
	change(id)
	id = deleted()
	if _, err := s.Reconcile(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	change(id)
	schedules(t, s.Store)
}

// TestForgedTime holds invariant 6: a time from the future that an earlier release stored outranks no
// event that is late.
func TestForgedTime(t *testing.T) {
	s := newSite(t)
	id, _ := s.created()
	s.exec("UPDATE millrace.source_state SET last_event_at = $1", far)
	late := s.event(source.Updated, id, faster)
	late.Stored = late.Timestamp.Add(keep)
	s.hand(Applied, late)
	if j := s.job(id); j.RateLimit != 999 {
		t.Errorf("%+v", j)
	}
	older := s.event(source.Disabled, id, source.Toggle{})
	older.Timestamp = late.Timestamp.Add(-time.Second)
	older.Stored = older.Timestamp.Add(keep)
	s.hand(Stale, older)
}
