package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/schemas/source"
)

// keep is for how long ids of events are remembered.
const keep = 7 * 24 * time.Hour

// Event is an event as a stream has it.
type Event struct {
	source.Told
	Seq    int64     // on the stream
	Stored time.Time // when the stream took it
}

// late tells whether an event may be a repeat of one whose id is forgotten.
func (e Event) late() bool { return e.Stored.Sub(e.Timestamp) >= keep }

// Early tells whether an event says that it happened after the stream took it, by
// more than clocks may differ.
func (e Event) Early() bool { return e.Timestamp.After(e.Stored.Add(source.ClockSkew)) }

// at is when an event happened: no later than the stream took it.
func (e Event) at() time.Time {
	if e.Timestamp.After(e.Stored) {
		return e.Stored
	}
	return e.Timestamp
}

// state is what events have told of a source.
type state struct {
	id uuid.UUID
	source.Fields
	own      bool          // it is, or was, in the table of sources
	seqs     []int64       // of the events that set the fields
	created  int64         // sequence of the event that made it; 0: it was found in the table
	creation source.Fields // as that event has them
	deleted  int64         // sequence of the event that deleted it last
	last     int64
	lastAt   time.Time
}

// gone tells whether the source is deleted.
func (s *state) gone() bool { return s.deleted > 0 && s.created <= s.deleted }

// found is the state of a source that was found in the table, of which no event was
// applied.
func found(row source.CrawlSource) *state {
	return &state{
		id: row.ID, Fields: row.Fields, creation: row.Fields, own: true, seqs: make([]int64, len(source.Names)),
		lastAt: row.UpdatedAt,
	}
}

// latest is the time of the latest event before e. A time after e is no event's:
// earlier releases took whatever a publisher said.
func (s *state) latest(e Event) time.Time {
	if s.lastAt.After(e.Stored.Add(source.ClockSkew)) {
		return time.Time{}
	}
	return s.lastAt
}

// effect is what an event does to its source.
type effect struct {
	refused bool     // the event is early, and the table does not say the same
	unknown bool     // there is nothing to apply it to
	stale   bool     // it changes nothing, since later events have said everything
	enabled bool     // it enables the source, and that counts
	wanted  bool     // by it the source has a job, whether or not it counts still
	changed []string // how fields have changed, for people
}

// apply applies an event, and returns the state after it. was is nil while nothing is
// known of the source, and row is the source in the table, if it is there.
func apply(was *state, e Event, row *source.CrawlSource) (*state, effect) {
	if row != nil && (was == nil || was.gone() && e.Seq > was.deleted) && (e.Type != source.Created || e.Early()) {
		was = foundAgain(*row, was)
	}
	switch {
	case e.Early():
		return was.early(e, row)
	case was == nil || was.gone():
		if e.Type != source.Created {
			return was, effect{unknown: was == nil || e.Seq > was.deleted, stale: was != nil && e.Seq <= was.deleted}
		}
	case e.late() && was.own && row != nil:
		return was.reread(e, row)
	}
	if was != nil && (e.Seq <= was.deleted || e.late() && e.Timestamp.Before(was.latest(e))) {
		return was, effect{stale: true}
	}
	now := was.copy(e, row)
	switch {
	case e.Type == source.Deleted:
		now.deleted = e.Seq
		now.recreate(e.Seq) // what an event of before has set in the next life of the source
		return now, effect{}
	case was != nil && e.Type == source.Created && e.Seq < was.created:
		now.recreate(was.created - 1) // that one was no creation: what it says is later than all before it
		changed := differences(was.Fields, now.Fields)
		return now, effect{stale: len(changed) == 0, changed: changed}
	}
	return now, now.set(was, e)
}

// recreate sets fields as the creation has them that an event up to a sequence has set.
func (s *state) recreate(upTo int64) {
	for i, name := range source.Names {
		if s.created > upTo && s.seqs[i] <= upTo {
			s.Fields, s.seqs[i] = s.Fields.With(name, s.creation), upTo
		}
	}
}

// copy returns the state with the marks of an event. was is nil before the first.
func (s *state) copy(e Event, row *source.CrawlSource) *state {
	now := &state{id: e.SourceID, Fields: source.New(), seqs: make([]int64, len(source.Names))}
	if s != nil {
		*now = *s
		now.seqs = slices.Clone(s.seqs)
	}
	now.own = now.own || row != nil
	now.last = max(now.last, e.Seq)
	now.lastAt = now.latest(e)
	if at := e.at(); at.After(now.lastAt) {
		now.lastAt = at
	}
	return now
}

// set sets the fields that an event gives and that no later one has set.
func (s *state) set(was *state, e Event) (done effect) {
	creation := e.Type == source.Created && (was == nil || was.gone())
	before := s.Fields
	after, stale := e.Says().Over(before), true
	if e.Type == source.Created { // says all
		after = e.Says().Over(source.New())
		s.created, s.creation = e.Seq, after
	}
	for i, name := range source.Names {
		switch {
		case creation && s.seqs[i] > s.deleted: // an event of this life has set it before
			after = after.With(name, s.Fields)
			continue
		case creation:
			s.seqs[i] = s.deleted // whatever sets it in this life of the source is later
		case e.Type != source.Created && !e.Says().Given(name) || e.Seq <= s.seqs[i]:
			after = after.With(name, before)
			continue
		default:
			s.seqs[i] = e.Seq
		}
		stale = false
		if name == "enabled" && !creation {
			done.enabled = after.Enabled && (e.Type == source.Enabled || !before.Enabled)
		}
	}
	done.wanted = e.Says().Given("enabled") && e.Says().Over(before).Enabled || creation && s.creation.Enabled
	done.stale = stale && e.Type != source.Created && gives(e)
	if !creation {
		done.changed = differences(before, after)
	}
	s.Fields = after
	return done
}

// differences say how fields have changed.
func differences(before, after source.Fields) (all []string) {
	for _, name := range source.Changed(before, after) {
		all = append(all, describe(name, before, after))
	}
	return all
}

func gives(e Event) bool { return slices.ContainsFunc(source.Names, e.Says().Given) }

// reread takes the source as it is in the table.
func (s *state) reread(e Event, row *source.CrawlSource) (*state, effect) {
	now := s.copy(e, row)
	now.Fields = row.Fields
	for i := range now.seqs {
		now.seqs[i] = max(now.seqs[i], e.Seq)
	}
	changed := differences(s.Fields, row.Fields)
	return now, effect{
		stale: len(changed) == 0, enabled: row.Enabled && !s.Enabled, wanted: row.Enabled, changed: changed,
	}
}

// early judges an early event by the table of sources: a clock may be wrong by which
// Millrace itself tells of a change. A source that is there is taken as it is, and
// one that is not may be deleted.
func (s *state) early(e Event, row *source.CrawlSource) (*state, effect) {
	switch {
	case row != nil:
		now, done := s.reread(e, row)
		done.refused = e.Type == source.Deleted || len(source.Changed(row.Fields, e.Says().Over(row.Fields))) > 0
		return now, done
	case e.Type == source.Deleted && s != nil && s.own && !s.gone():
		now := s.copy(e, nil)
		now.deleted = e.Seq
		now.recreate(e.Seq)
		return now, effect{}
	}
	return s, effect{refused: true}
}

// describe says how a field has changed.
func describe(name string, from, to source.Fields) string {
	if name == "selectors" {
		return "selectors"
	}
	text := func(f source.Fields) string {
		value, ok := f.Field(name).(string)
		if !ok {
			written, _ := json.Marshal(f.Field(name)) // numbers and truth values
			value = string(written)
		}
		return strings.ToValidUTF8(value[:min(len(value), 100)], "")
	}
	return fmt.Sprintf("%s: %s → %s", name, text(from), text(to))
}
