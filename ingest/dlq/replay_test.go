package dlq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// An event on a wrong subject is stored on the right one, without an id
// (invariants 1 and 2).
func TestReplayOfWrongSubject(t *testing.T) {
	f := start(t)
	body := eventText(1, "crawled", time.Minute, "null")
	id, seq := f.refuse("events.indexed.zz", "subject", body)
	f.want(f.replay(Selection{IDs: []string{fmt.Sprint(id), originID("EVENTS", seq)}}, ReplayOptions{DryRun: true}),
		"matched 1 replayed 1 (0) kept 0 deleted 0")
	if n := len(f.stored("events.>")); n != 1 || f.letters() != 1 {
		t.Fatalf("after a dry run there are %d events and %d letters", n, f.letters())
	}
	f.want(f.replay(Selection{All: true}, ReplayOptions{}), "matched 1 replayed 1 (0) kept 0 deleted 1")
	got := f.stored(rightSubject(1, "crawled"))
	if len(got) != 1 || string(got[0].Data) != body || got[0].Header.Get(jetstream.MsgIDHeader) != "" {
		t.Errorf("stored: %+v", got)
	}
	r := f.replay(Selection{IDs: []string{fmt.Sprint(id)}}, ReplayOptions{})
	if f.want(r, "matched 0 replayed 0 (0) kept 0 deleted 0"); len(r.Missing) != 1 {
		t.Errorf("%+v", r)
	}
}

// A stage that was configured too late.
func TestReplayAfterConfiguration(t *testing.T) {
	f := start(t)
	f.refuse(rightSubject(1, "cooked"), "stage_unknown", eventText(1, "cooked", time.Minute, "{}"))
	f.want(f.replay(Selection{Filter: Filter{Code: "stage_unknown"}}, ReplayOptions{}),
		"matched 1 replayed 0 (0) kept 1 deleted 0 stage_unknown")
	f.cfg.Stages, _ = event.ParseStages("crawled,cooked")
	f.want(f.replay(Selection{Filter: Filter{Code: "stage_unknown"}}, ReplayOptions{}),
		"matched 1 replayed 1 (0) kept 0 deleted 1")
	if n := len(f.stored(rightSubject(1, "cooked"))); n != 2 {
		t.Errorf("%d messages, want the letter's and the replay's", n)
	}
}

// A letter that lost the end of its message is no message any more, though what
// is left may look like one.
func TestReplayOfCut(t *testing.T) {
	f := start(t)
	id := f.put(
		dead{seq: 1, subject: rightSubject(1, "crawled"), body: eventText(1, "crawled", time.Minute, "{}"), cut: 17},
	)
	f.want(f.replay(Selection{All: true}, ReplayOptions{}), "matched 1 replayed 0 (0) kept 1 deleted 0 cut")
	l, err := f.Show(t.Context(), fmt.Sprint(id))
	if err != nil || l.Cut != 17 || len(f.stored("events.>")) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}

// What is still invalid stays, with its reason (invariant 3).
func TestReplayOfInvalid(t *testing.T) {
	f := start(t)
	for i, body := range []string{
		"not JSON", "", eventText(1, "crawled", -time.Hour, "{}"), eventText(2, "cooked", 0, "{}"),
		strings.Repeat("x", event.MaxSize+1),
		eventText(3, "crawled", 0, "[]"),
	} {
		f.put(dead{seq: uint64(i + 1), subject: "events.crawled.00", body: body})
	}
	f.want(f.replay(Selection{All: true}, ReplayOptions{AsBackfill: true}),
		"matched 6 replayed 0 (0) kept 6 deleted 0 json json time_future stage_unknown size metadata_object")
	if f.letters() != 6 || len(f.stored("events.>")) != 0 {
		t.Error("an invalid letter has moved")
	}
}

func TestReplayAsBackfill(t *testing.T) {
	f := start(t)
	ago := 30 * time.Hour
	for i, metadata := range []string{
		"null", "{}", `{"backfilled":false,"n":1,"backfilled":"no"}`,
		`{"x":"` + strings.Repeat("x", event.MaxMetadata-10) + `"}`,
	} {
		f.put(dead{
			seq: uint64(i + 1), at: time.Now().Add(-29 * time.Hour),
			body: eventText(i, "crawled", ago, metadata),
		})
	}
	f.put(dead{seq: 9, body: eventText(9, "crawled", ago, "{}")}) // was too old when it came
	f.put(dead{seq: 10, body: eventText(10, "crawled", 0, "{}")})
	f.want(f.replay(Selection{All: true}, ReplayOptions{}),
		"matched 6 replayed 1 (0) kept 5 deleted 1 too_old_now too_old_now too_old_now too_old_now time_too_old")
	f.want(f.replay(Selection{All: true}, ReplayOptions{AsBackfill: true}),
		"matched 5 replayed 4 (0) kept 1 deleted 4 metadata_size")
	for _, m := range f.stored("events.>") {
		var r event.Record
		invalid := event.Decode(m.Data, &r)
		if invalid == nil {
			invalid = r.Validate(f.cfg.Stages, m.Time, true)
		}
		if invalid != nil || !stream.MatchesSubject(m.Subject, r.Stage, r.URLHash) ||
			r.Meta.Backfilled == (string(r.ArticleURL) == "https://example.com/10") {
			t.Errorf("%s %s: %v", m.Subject, m.Data, invalid)
		}
		if !strings.Contains(string(m.Data), `"new":{"a<b":1e400}`) {
			t.Errorf("%s has lost a value", m.Data)
		}
	}
}

// A replay whose process died between publishing and deleting is completed by
// the next one. What is stored again is the same event (invariant 2).
func TestReplayAfterCrash(t *testing.T) {
	f := start(t)
	bodies := map[uint64]string{}
	for i := range 30 {
		id, _ := f.refuse("events.crawled.zz", "subject", eventText(i, "crawled", time.Minute, "{}"))
		bodies[id] = eventText(i, "crawled", time.Minute, "{}")
	}
	dying, err := New(f.cfg, f.nats.Connect(), f.log)
	if err != nil {
		t.Fatal(err)
	}
	st, err := dying.stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run, sel, report := replay{Service: dying}, Selection{All: true, Limit: 100}, NewReport(false)
	err = dying.each(t.Context(), st, sel, &report, func(some []found) error {
		for i := range some[:20] {
			m, invalid := run.judge(&some[i], false, &run.record)
			if invalid != nil {
				t.Fatal(invalid)
			}
			if _, err := f.js.Publish(t.Context(), m.Subject, m.Data); err != nil {
				t.Fatal(err)
			}
		}
		return errors.New("dead")
	})
	if err == nil || f.letters() != 30 {
		t.Fatal(err, f.letters())
	}
	f.want(f.replay(Selection{All: true}, ReplayOptions{}), "matched 30 replayed 30 (0) kept 0 deleted 30")
	if n := len(f.stored("events.crawled.*")); n != 80 { // the letters' messages, and those of both replays
		t.Errorf("%d messages are stored", n)
	}
	if n := len(f.nats.IDs()); n != 30 {
		t.Errorf("%d events are stored", n)
	}
}

// Replays side by side store each event, and delete each letter.
func TestConcurrentReplays(t *testing.T) {
	f := start(t)
	const letters = 300
	for i := range letters {
		f.put(dead{seq: uint64(i + 1), body: eventText(i, "crawled", time.Minute, "{}")})
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { f.replay(Selection{All: true}, ReplayOptions{}) })
	}
	wg.Wait()
	if n := len(f.nats.IDs()); n != letters || f.letters() != 0 {
		t.Errorf("%d events, %d letters", n, f.letters())
	}
}

// A call is bounded, and the next one goes on where it stopped, to where the
// first one began (invariants 4 and 5).
func TestReplayInSteps(t *testing.T) {
	f := start(t)
	for i := range 25 {
		body := "broken"
		if i%2 == 1 {
			body = eventText(i, "crawled", time.Minute, "{}")
		}
		f.put(dead{seq: uint64(i + 1), body: body})
	}
	sel := Selection{All: true, Limit: 7}
	all := NewReport(false)
	for calls := 1; ; calls++ {
		r := f.replay(sel, ReplayOptions{})
		if all.Add(r); r.NextCursor == "" {
			if calls < 4 {
				t.Errorf("%d calls", calls)
			}
			break
		}
		f.put(dead{seq: uint64(100 + calls), body: "a new letter"})
		var err error
		if sel.Cursor, err = ParseCursor(r.NextCursor); err != nil {
			t.Fatal(err)
		}
	}
	f.want(all, "matched 25 replayed 12 (0) kept 13 deleted 12"+strings.Repeat(" json", 13))
}

// A message of another stream goes back to that stream, and a forged letter
// nowhere.
func TestReplayOfOtherMessages(t *testing.T) {
	f := start(t)
	for _, name := range []string{"WORK", "OTHER"} {
		if _, err := f.js.CreateStream(t.Context(),
			jetstream.StreamConfig{Name: name, Subjects: []string{strings.ToLower(name) + ".>"}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, subject := range []string{
		"work.crawled", "other.crawled", "nobody.listens", "$JS.API.STREAM.DELETE.EVENTS",
		"_INBOX.x", "dlq.EVENTS.7", "work.*", "work. x", "",
	} {
		f.put(dead{stream: "WORK", seq: uint64(i + 1), subject: subject, body: "task"})
	}
	if _, err := f.js.Publish(t.Context(), "dlq.whatever", []byte("no headers")); err != nil {
		t.Fatal(err)
	}
	f.want(f.replay(Selection{All: true}, ReplayOptions{}),
		"matched 10 replayed 1 (0) kept 9 deleted 1 refused refused subject subject subject subject subject "+
			"subject origin")
	st, err := f.js.Stream(t.Context(), "WORK")
	if err != nil || st.CachedInfo().State.Msgs != 1 {
		t.Errorf("the message is not back: %v", err)
	}
}

// TestReplayIDsOfOthers: a message with any id that can be guessed, on the stream
// before a replay, does not make the replay a duplicate (invariants 1 and 2).
func TestReplayIDsOfOthers(t *testing.T) {
	f := start(t)
	if _, err := f.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "OTHER", Subjects: []string{"other.>"}, Duplicates: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"replay/OTHER/1", "replay/OTHER/2", "OTHER/1", "OTHER/2", "1", "2"} {
		if _, err := f.js.Publish(t.Context(), "other.x", []byte("task"), jetstream.WithMsgID(id)); err != nil {
			t.Fatal(err)
		}
	}
	f.put(dead{stream: "OTHER", seq: 1, subject: "other.x", body: "task", replayID: "random"})
	f.put(dead{stream: "OTHER", seq: 2, subject: "other.x", body: "task"}) // of an earlier release
	f.want(f.replay(Selection{All: true}, ReplayOptions{}), "matched 2 replayed 2 (0) kept 0 deleted 2")
	if st, err := f.js.Stream(t.Context(), "OTHER"); err != nil || st.CachedInfo().State.Msgs != 8 {
		t.Errorf("the messages are not back: %v", err)
	}
}

// TestReplayOfOthersAfterCrash: a replay that has published a message which is no
// event, and has not deleted its letter, is completed by the next one (invariant 2).
func TestReplayOfOthersAfterCrash(t *testing.T) {
	f := start(t)
	st, err := f.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}})
	if err != nil {
		t.Fatal(err)
	}
	letter := dead{stream: "OTHER", seq: 1, subject: "other.x", body: "task", replayID: "random"}
	for _, want := range []string{
		"matched 1 replayed 1 (0) kept 0 deleted 1", "matched 1 replayed 1 (1) kept 0 deleted 1",
	} {
		f.put(letter)
		f.want(f.replay(Selection{All: true}, ReplayOptions{}), want)
	}
	if info, err := st.Info(t.Context()); err != nil || info.State.Msgs != 1 {
		t.Errorf("the message is on its stream %d times, %v", info.State.Msgs, err)
	}
}

// TestReplayToALimit: what a stream refuses for the stream's sake is to be
// replayed again, and what it refuses for the message's is not.
func TestReplayToALimit(t *testing.T) {
	f := start(t)
	cfg := jetstream.StreamConfig{Name: "WORK", Subjects: []string{"work.>"}, MaxMsgSize: 100}
	_, err := f.js.CreateStream(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.put(dead{stream: "WORK", seq: 1, subject: "work.a", body: strings.Repeat("x", 200)})
	f.want(f.replay(Selection{All: true}, ReplayOptions{}), "matched 1 replayed 0 (0) kept 1 deleted 0 refused")
	cfg.Sealed, cfg.DenyDelete, cfg.DenyPurge = true, true, true
	if _, err := f.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	f.put(dead{stream: "WORK", seq: 2, subject: "work.a", body: "task"})
	if r, err := f.Replay(t.Context(), Selection{IDs: []string{"2"}}, ReplayOptions{}); err == nil || r.Kept != 0 ||
		f.letters() != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestReplayWithoutServer(t *testing.T) {
	f := start(t)
	f.put(dead{seq: 1, body: eventText(1, "crawled", time.Minute, "{}")})
	f.nats.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := f.Replay(ctx, Selection{All: true}, ReplayOptions{}); err == nil {
		t.Error("a replay without a server succeeds")
	}
	f.nats.Start()
	f.want(f.eventually(Selection{All: true}), "matched 1 replayed 1 (0) kept 0 deleted 1")
}

// eventually replays as soon as the connection is back.
func (f fixture) eventually(sel Selection) LetterReport {
	for {
		r, err := f.Replay(f.t.Context(), sel, ReplayOptions{})
		if err == nil || f.t.Context().Err() != nil {
			return r
		}
	}
}

// TestReplayOfConflict holds invariant 6: the event of a letter whose key another
// event has gets the same key of its own whenever it is replayed, also where only
// the projector's answer tells of the conflict.
func TestReplayOfConflict(t *testing.T) {
	f := start(t)
	body := strings.Replace(eventText(1, "crawled", time.Minute, "null"), "{", `{"idempotency_key":"taken",`, 1)
	var r event.Record
	if invalid := event.Decode([]byte(body), &r); invalid != nil {
		t.Fatal(invalid)
	}
	taken := r.Identity()
	own, invalid := event.GiveOwnKey([]byte(body), &r)
	if invalid != nil {
		t.Fatal(invalid)
	}
	for range 2 {
		f.refuse(rightSubject(1, "crawled"), event.KeyConflict, body)
		f.want(f.replay(Selection{Filter: Filter{Code: event.KeyConflict}}, ReplayOptions{}),
			"matched 1 replayed 1 (0) kept 0 deleted 1")
	}
	// A letter for another reason, of an event whose key is another's as well.
	nc := f.nats.Connect()
	sub, err := nc.Subscribe(stream.Known, func(m *nats.Msg) {
		q, _ := stream.ParseKnownQuestion(m.Data)
		var a stream.KnownAnswer
		for i, it := range q.Items {
			a.Slots.Add(it.Slot)
			if it.Identity == taken {
				a.Found = append(a.Found, stream.Found{Item: uint16(i), Conflict: true, Seq: 1})
			}
		}
		_ = m.Respond(a.AppendBinary(nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	f.refuse("events.crawled.zz", "subject", body)
	f.want(f.replay(Selection{All: true}, ReplayOptions{}), "matched 1 replayed 1 (0) kept 0 deleted 1")
	replayed := 0
	for _, m := range f.stored(rightSubject(1, "crawled")) {
		switch string(m.Data) {
		case string(own):
			replayed++
		case body:
		default:
			t.Errorf("stored: %s", m.Data)
		}
	}
	if replayed != 3 {
		t.Errorf("%d events have the key of their own, want 3", replayed)
	}
}
