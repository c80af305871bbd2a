package sources_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/schemas/source"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// site is a store on a database of its own.
type site struct {
	*testing.T
	*sources.Store
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	store, err := sources.New(engine.Pool(t, queue.Configure))
	if err != nil {
		t.Fatal(err)
	}
	return &site{t, store}
}

// told is an event as it waits in the outbox.
type told struct {
	subject string
	id      string // of the message
	source.Event
	Payload json.RawMessage `json:"payload"`
}

// events are those that wait, in their order.
func (s *site) events() (all []told) {
	s.Helper()
	rows, err := s.Pool().Query(s.T.Context(), "SELECT subject, message_id, body FROM millrace.message_outbox "+
		"ORDER BY id")
	if err != nil {
		s.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e told
		var body []byte
		if err := rows.Scan(&e.subject, &e.id, &body); err != nil {
			s.Fatal(err)
		}
		if err := json.Unmarshal(body, &e); err != nil {
			s.Fatal(err)
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		s.Fatal(err)
	}
	return all
}

func draft(text string) *source.Draft { return source.ReadDraft([]byte(text)) }

func (s *site) create(text string) source.CrawlSource {
	s.Helper()
	made, err := s.Create(s.T.Context(), draft(text).Over(source.New()))
	if err != nil {
		s.Fatal(err)
	}
	return made
}

// TestEvents: each change leaves one event in the envelope of the contract, and what
// changes nothing leaves none.
func TestEvents(t *testing.T) {
	s := newSite(t)
	made := s.create(`{"name":"a","url":"https://example.com","selectors":{"title":"h1"},"priority":"high"}`)
	for range 2 { // the second time there is nothing to do
		if _, err := s.Update(t.Context(), made.ID, draft(`{"rate_limit":5,"max_depth":2}`)); err != nil {
			t.Fatal(err)
		}
	}
	for _, enabled := range []bool{true, false, false, true} {
		if _, err := s.Toggle(t.Context(), made.ID, enabled, "why"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Store.Delete(t.Context(), made.ID, "gone"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`SOURCE_CREATED {"name":"a","url":"https://example.com","rate_limit":10,"max_depth":1,"enabled":true,` +
			`"selectors":{"title":"h1"},"priority":"high"}`,
		`SOURCE_UPDATED {"changed_fields":["rate_limit","max_depth"],"previous":{"max_depth":1,"rate_limit":10},` +
			`"current":{"max_depth":2,"rate_limit":5}}`,
		`SOURCE_DISABLED {"reason":"why","toggled_by":"user","disabled_by":"user"}`,
		`SOURCE_ENABLED {"reason":"why","toggled_by":"user"}`,
		`SOURCE_DELETED {"name":"a","deletion_reason":"gone"}`,
	}
	var got []string
	ids := map[uuid.UUID]bool{}
	for _, e := range s.events() {
		got = append(got, e.Type+" "+string(e.Payload))
		ids[e.ID] = true
		if e.subject != "sources."+e.Type || e.id != e.ID.String() || e.SourceID != made.ID || e.Timestamp.IsZero() {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(got, want) || len(ids) != len(want) {
		t.Errorf("%d ids of %s\nwant %s", len(ids), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestMissing: what is done to a source that does not exist says so, and tells
// nothing.
func TestMissing(t *testing.T) {
	s := newSite(t)
	id := uuid.New()
	_, get := s.Get(t.Context(), id)
	_, update := s.Update(t.Context(), id, draft(`{"name":"b"}`))
	_, toggle := s.Toggle(t.Context(), id, false, "why")
	for _, err := range []error{get, update, toggle, s.Store.Delete(t.Context(), id, "why")} {
		if !errors.Is(err, sources.ErrNotFound) {
			t.Errorf("%v, want %v", err, sources.ErrNotFound)
		}
	}
	if all := s.events(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// TestTogether: a change whose event cannot be stored is not made either.
func TestTogether(t *testing.T) {
	s := newSite(t)
	made := s.create(`{"name":"a","url":"https://example.com"}`)
	if _, err := s.Pool().Exec(t.Context(), "ALTER TABLE millrace.message_outbox ADD CHECK (key <> key) NOT VALID"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Toggle(t.Context(), made.ID, false, "why"); err == nil {
		t.Error("a change without its event has committed")
	}
	now, err := s.Get(t.Context(), made.ID)
	if err != nil || !reflect.DeepEqual(now, made) {
		t.Errorf("%+v, %v, want %+v", now, err, made)
	}
}

// TestBulk: members that do not exist keep no other back, and one that is named twice
// is changed once.
func TestBulk(t *testing.T) {
	s := newSite(t)
	a, b := s.create(`{"name":"a","url":"https://a.example"}`), s.create(`{"name":"b","url":"https://b.example"}`)
	gone := uuid.New()
	ids := []uuid.UUID{b.ID, gone, a.ID, b.ID, gone}
	for _, op := range []string{sources.OpDisable, sources.OpEnable, sources.OpDelete} {
		missing, err := s.Bulk(t.Context(), op, ids, "why")
		if err != nil || len(missing) != 1 || !missing[gone] {
			t.Errorf("%s: %v, %v", op, missing, err)
		}
	}
	var got []string
	for _, e := range s.events()[2:] {
		got = append(got, e.Type)
	}
	want := []string{
		"SOURCE_DISABLED", "SOURCE_DISABLED", "SOURCE_ENABLED", "SOURCE_ENABLED", "SOURCE_DELETED",
		"SOURCE_DELETED",
	}
	if n, err := s.Count(t.Context(), sources.Filter{}); !slices.Equal(got, want) || n != 0 || err != nil {
		t.Errorf("%v, %d sources are left, %v", got, n, err)
	}
}

// TestList: each filter, walked page by page, selects what a plain loop does.
func TestList(t *testing.T) {
	s := newSite(t)
	random := rand.New(rand.NewPCG(1, 2))
	var all []source.CrawlSource
	for i := range 60 {
		all = append(all, s.create(fmt.Sprintf(`{"name":"Ängel %d%%","url":"https://news%d.example/A_b",`+
			`"enabled":%v,"priority":%q}`,
			i, i%7, random.IntN(2) == 0, source.Priorities[random.IntN(4)])))
	}
	yes, no := true, false
	for _, f := range []sources.Filter{
		{},
		{Enabled: &yes},
		{Enabled: &no},
		{Priority: "low"},
		{Text: "ängel 1"},
		{Text: "NEWS3"},
		{Text: "a_b"},
		{Text: "%"},
		{Text: "_"},
		{Text: "nothing"},
		{Text: "2", Enabled: &yes, Priority: "critical"},
	} {
		var want, got []uuid.UUID
		for _, v := range all {
			text := strings.ToLower(v.Name + "\n" + v.URL)
			if strings.Contains(text, strings.ToLower(f.Text)) && (f.Enabled == nil || v.Enabled == *f.Enabled) &&
				(f.Priority == "" || v.Priority == f.Priority) {
				want = append(want, v.ID)
			}
		}
		for after, more := uuid.Nil, true; more; {
			page, err := s.List(t.Context(), f, after, 7)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range page {
				got, after = append(got, v.ID), v.ID
			}
			more = len(page) == 7
		}
		n, err := s.Count(t.Context(), f)
		if !slices.Equal(got, want) || int(n) != len(want) || err != nil {
			t.Errorf("%+v: %d are listed, %d counted, %v, want %d", f, len(got), n, err, len(want))
		}
	}
}

// TestCrowd: what several callers do to the same sources at once is told in the
// order in which it took effect: the events of a source, applied one after another,
// lead to what it is.
func TestCrowd(t *testing.T) {
	s := newSite(t)
	var ids []uuid.UUID
	for i := range 5 {
		ids = append(ids, s.create(fmt.Sprintf(`{"name":"%d","url":"https://example.com"}`, i)).ID)
	}
	var callers sync.WaitGroup
	for seed := range uint64(4) {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for range 25 {
				if err := s.act(t.Context(), random, ids); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
	callers.Wait()
	state := map[uuid.UUID]map[string]any{}
	for _, e := range s.events() {
		if err := apply(state, e); err != nil {
			t.Fatalf("%s of %s: %v", e.Type, e.SourceID, err)
		}
	}
	for _, id := range ids {
		now, err := s.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if want := asMap(t, now.Fields); !reflect.DeepEqual(state[id], want) {
			t.Errorf("the events lead to %v, and the source is %v", state[id], want)
		}
	}
}

// act does something to some of the sources.
func (s *site) act(ctx context.Context, random *rand.Rand, ids []uuid.UUID) (err error) {
	id := ids[random.IntN(len(ids))]
	switch random.IntN(3) {
	case 0:
		_, err = s.Toggle(ctx, id, random.IntN(2) == 0, "why")
	case 1:
		_, err = s.Update(ctx, id, draft(fmt.Sprintf(`{"rate_limit":%d,"enabled":%v}`, 1+random.IntN(3),
			random.IntN(2) == 0)))
	default:
		some := slices.Clone(ids)
		random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		_, err = s.Bulk(ctx, []string{sources.OpEnable, sources.OpDisable}[random.IntN(2)], some[:3], "why")
	}
	return err
}

// apply changes a state as an event says. An update that does not follow from the
// state is out of order.
func apply(state map[uuid.UUID]map[string]any, e told) error {
	var payload map[string]any
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return err
	}
	switch e.Type {
	case source.Created:
		state[e.SourceID] = payload
	case source.Updated:
		for field, value := range payload["previous"].(map[string]any) {
			if got := state[e.SourceID][field]; !reflect.DeepEqual(got, value) {
				return fmt.Errorf("%s is %v, and was %v", field, got, value)
			}
		}
		maps.Copy(state[e.SourceID], payload["current"].(map[string]any))
	default:
		enabled := e.Type == source.Enabled
		if state[e.SourceID]["enabled"] == enabled {
			return fmt.Errorf("it is %v already", enabled)
		}
		state[e.SourceID]["enabled"] = enabled
	}
	return nil
}

func asMap(t *testing.T, f source.Fields) (m map[string]any) {
	t.Helper()
	text, err := json.Marshal(f)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}
