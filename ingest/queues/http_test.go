package queues

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// site is a server with the queue mail.
type site struct{ *trackingtest.Site }

func serve(t *testing.T, settings string) *site {
	t.Helper()
	s := &site{trackingtest.Start(t, &engine)}
	h, err := New(s.UserQueues(), s.Hands, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(auth.New(auth.Config{}), h)
	s.want(201, "/queues", `{"name":"mail"`+settings+`}`)
	return s
}

// want posts a document, and holds the status of the answer.
func (s *site) want(status int, path, body string) string {
	s.T.Helper()
	got, text := s.Post(path, body)
	if got != status {
		s.T.Fatalf("POST %s %s: %d %s, want %d", path, body, got, text, status)
	}
	return text
}

// taken is what take answers.
type taken struct {
	Items []struct {
		ID         int64
		Generation int32
		Attempt    int32
		Key, Group string
		Payload    struct{ N int }
		LeaseUntil *string `json:"lease_until"`
	}
}

func (s *site) take(n int) taken {
	s.T.Helper()
	s.InStep()
	var out taken
	status, text := s.Post("/queues/mail/take", fmt.Sprintf(`{"worker":"w","limit":%d,"lease_s":30}`, n))
	s.Into(&out, 200, status, text)
	return out
}

// TestOwnQueue goes the way of an item, by the letter of the contract.
func TestOwnQueue(t *testing.T) {
	s := serve(t, `,"max_attempts":2,"lease_s":30,"backoff_s":[0]`)
	s.want(200, "/queues", `{"name":"mail","max_attempts":2,"lease_s":30,"backoff_s":[0]}`)
	s.want(409, "/queues", `{"name":"mail","max_attempts":3}`)
	s.want(409, "/queues", `{"name":"shard-worker"}`)
	s.want(404, "/queues/mailless/items", `{"items":[{"payload":1}]}`)
	var added struct{ Added, Existing []QueueItemName }
	status, text := s.Post("/queues/mail/items", `{"items":[{"payload":{"n":1},"key":"a","group":"g"},{"payload":{"n":2},"key":"a"},
		{"payload":{"n":3},"priority":5},{"payload":{"n":4},"run_at":"2999-01-01T00:00:00Z"}]}`)
	s.Into(&added, 201, status, text)
	if len(added.Added) != 3 || len(added.Existing) != 1 || added.Existing[0] != added.Added[0] {
		t.Fatalf("%s", text)
	}
	status, text = s.Post("/queues/mail/items", `{"items":[{"payload":{"n":9},"key":"a"}]}`)
	if s.Into(&added, 200, status, text); added.Existing[0].Key != "a" {
		t.Errorf("%s", text)
	}
	got := s.take(10)
	if len(got.Items) != 2 || got.Items[0].Payload.N != 3 || got.Items[1].Payload.N != 1 || got.Items[1].Group != "g" ||
		got.Items[1].LeaseUntil == nil || got.Items[1].Attempt != 1 {
		t.Fatalf("took %+v", got)
	}
	first, second := got.Items[0], got.Items[1]
	path := func(id int64, move string) string { return fmt.Sprintf("/queues/mail/items/%d/%s", id, move) }
	half := fmt.Sprintf(`{"generation":%d,"lease_s":60,"progress":"half"}`, first.Generation)
	s.want(200, path(first.ID, "extend"), half)
	s.want(200, path(first.ID, "extend"), fmt.Sprintf(`{"generation":%d,"lease_s":60}`, first.Generation))
	s.want(409, path(first.ID, "extend"), fmt.Sprintf(`{"generation":%d,"progress":"all"}`, first.Generation-1))
	if text := s.want(400, path(first.ID, "extend"), `{"progress":"`+strings.Repeat("x", 501)+`"}`); !strings.Contains(
		text, `"field":"progress"`) {
		t.Errorf("%s", text)
	}
	done := fmt.Sprintf(`{"generation":%d,"result":{"ok":true}}`, first.Generation)
	s.want(200, path(first.ID, "done"), done)
	s.want(200, path(first.ID, "done"), done)
	if text := s.want(409, path(first.ID, "release"), "{}"); !strings.Contains(text, `"current_state":"done"`) {
		t.Errorf("%s", text)
	}
	s.want(409, path(second.ID, "done"), fmt.Sprintf(`{"generation":%d}`, second.Generation-1))
	// One more attempt, and it is dead; its key is free then.
	s.want(200, path(second.ID, "fail"), fmt.Sprintf(`{"generation":%d,"error":"no"}`, second.Generation))
	again := s.take(10)
	if len(again.Items) != 1 || again.Items[0].ID != second.ID || again.Items[0].Attempt != 2 {
		t.Fatalf("took %+v", again)
	}
	if text := s.want(200, path(second.ID, "fail"),
		fmt.Sprintf(`{"generation":%d}`, again.Items[0].Generation)); !strings.Contains(text, `"dead"`) {
		t.Errorf("%s", text)
	}
	s.want(201, "/queues/mail/items", `{"items":[{"payload":{"n":5},"key":"a","group":"h"}]}`)
	s.want(409, path(second.ID, "retry"), "{}") // another live item has its key
	if text := s.want(200, "/queues/mail/cancel", `{"group":"h"}`); text != `{"count":1}` {
		t.Errorf("%s", text)
	}
	s.want(200, path(second.ID, "retry"), "{}")
	if text := s.want(200, "/queues/mail/retry-failed", `{"state":"cancelled"}`); text != `{"count":0}` {
		t.Errorf("retried one whose key is taken: %s", text)
	}
	s.want(404, path(first.ID+1000, "done"), "{}")
	s.want(200, "/queues/mail/resume", "")
	if text := s.want(400, "/queues/mail/pause", `{"group":"job-1"}`); !strings.Contains(text, `"field_unknown"`) {
		t.Errorf("a pause of one group: %s, want that there is no such field", text)
	}
	s.want(200, "/queues/mail/pause", "")
	if got := s.take(10); len(got.Items) != 0 {
		t.Errorf("took %+v of a paused queue", got)
	}
}

// TestLateDone: done counts after the end of the lease, as long as nobody has begun the
// item since, also where the end of the lease had it die.
func TestLateDone(t *testing.T) {
	s := serve(t, `,"max_attempts":2,"lease_s":1`)
	s.want(201, "/queues/mail/items", `{"items":[{"payload":{"n":1}},{"payload":{"n":2}}]}`)
	s.InStep()
	take := func() (items map[int64]int32) {
		t.Helper()
		var got taken
		status, text := s.Post("/queues/mail/take", `{"worker":"w","limit":2}`)
		s.Into(&got, 200, status, text)
		items = map[int64]int32{}
		for _, it := range got.Items {
			items[it.ID] = it.Generation
		}
		return items
	}
	state := func(id int64) string {
		var of string
		if err := s.Store.Pool().QueryRow(t.Context(), "SELECT status FROM millrace.item WHERE id = $1", id).Scan(&of); err != nil {
			t.Fatal(err)
		}
		return of
	}
	until := func(id int64, want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); state(id) != want; time.Sleep(10 * time.Millisecond) {
			if err := s.Store.Queues().Sweep(t.Context()); err != nil || time.Now().After(end) {
				t.Fatalf("item %d is %s, not %s: %v", id, state(id), want, err)
			}
		}
	}
	report := func(status int, id int64, generation int32, result string) string {
		t.Helper()
		return s.want(status, fmt.Sprintf("/queues/mail/items/%d/done", id),
			fmt.Sprintf(`{"generation":%d,"result":%s}`, generation, result))
	}
	first := take()
	until(1, "new")
	until(2, "new")
	report(409, 1, first[1]-1, "1") // which was nobody's taking
	for range 2 {
		if text := report(200, 1, first[1], "1"); !strings.Contains(text, `"done"`) {
			t.Errorf("done after the lease: %s", text)
		}
	}
	s.InStep()
	second := take()
	if len(second) != 1 || second[2] == 0 {
		t.Fatalf("took %v, want the item that is not done", second)
	}
	report(409, 2, first[2], "1") // somebody else has it
	until(2, "failed")
	if text := report(200, 2, second[2], "2"); !strings.Contains(text, `"done"`) {
		t.Errorf("done after the last lease: %s", text)
	}
}

// TestReplay: an item that has failed is tried again with another payload, once for
// each generation, and the one before is kept.
func TestReplay(t *testing.T) {
	s := serve(t, "")
	s.want(201, "/queues/mail/items", `{"items":[{"payload":{"n":1},"key":"a"},{}]}`)
	got := s.take(10)
	if len(got.Items) != 2 {
		t.Fatalf("took %+v", got)
	}
	first, second := got.Items[0], got.Items[1]
	path := func(id int64, move string) string { return fmt.Sprintf("/queues/mail/items/%d/%s", id, move) }
	with := func(generation int32, payload string) string {
		return fmt.Sprintf(`{"generation":%d,"payload":%s}`, generation, payload)
	}
	s.want(409, path(first.ID, "replay"), with(first.Generation, "2")) // it is started
	s.want(200, path(first.ID, "fail"), `{"error":"no"}`)
	s.want(200, path(second.ID, "done"), "{}")
	long := with(first.Generation, `"`+strings.Repeat("x", 64<<10)+`"`)
	if text := s.want(400, path(first.ID, "replay"), long); !strings.Contains(text, `"field":"payload"`) {
		t.Errorf("%s", text)
	}
	s.want(400, path(first.ID, "replay"), `{"payload":2}`)
	s.want(409, path(first.ID, "replay"), with(first.Generation-1, "2"))
	s.want(409, path(second.ID, "replay"), with(second.Generation, "2"))
	s.want(404, path(second.ID+1000, "replay"), with(2, "2"))
	s.want(200, path(first.ID, "replay"), with(first.Generation, `{"n":9007199254740993}`))
	s.want(409, path(first.ID, "replay"), with(first.Generation, "3"))
	var before, now string
	err := s.Store.Pool().QueryRow(t.Context(), `SELECT c.payload::text, i.payload::text
		FROM millrace.payload_change AS c
		JOIN millrace.item AS i ON i.id = c.item_id WHERE i.id = $1 AND c.attempt = 1`, first.ID).Scan(&before, &now)
	if err != nil || before != `{"n":1}` || now != `{"n":9007199254740993}` {
		t.Errorf("%s became %s, %v", before, now, err)
	}
	if got := s.take(10); len(got.Items) != 1 || got.Items[0].Payload.N != 9007199254740993 ||
		got.Items[0].Attempt != 2 {
		t.Errorf("took %+v", got)
	}
	s.want(200, path(first.ID, "fail"), "{}")
	s.want(201, "/queues/mail/items", `{"items":[{"key":"a"}]}`)
	if text := s.want(409, path(first.ID, "replay"), with(first.Generation+2, "4")); !strings.Contains(text, "key") {
		t.Errorf("%s", text)
	}
}

// TestPriorityOfAdded: what was added a moment ago is taken when it is its turn, whether its
// message is on its way or not.
func TestPriorityOfAdded(t *testing.T) {
	for name, settings := range map[string]string{"unlimited": "", "limited": `,"concurrency":1000`} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, settings)
			for range 10 {
				s.want(201, "/queues/mail/items", `{"items":[{"payload":{"n":0}},{"payload":{"n":0}}]}`)
				s.InStep()
				s.want(201, "/queues/mail/items",
					`{"items":[{"payload":{"n":9},"priority":9},{"payload":{"n":5},"priority":5}]}`)
				var got taken
				s.Into(&got, 200, 200, s.want(200, "/queues/mail/take", `{"worker":"w","limit":2}`))
				if len(got.Items) != 2 || got.Items[0].Payload.N != 9 || got.Items[1].Payload.N != 5 {
					t.Fatalf("took %+v", got)
				}
				if s.take(10); t.Failed() {
					return
				}
			}
			if name == "limited" {
				return
			}
			for range 10 {
				s.want(201, "/queues/mail/items", `{"items":[{},{},{},{},{}]}`)
				// JetStream may not have told its consumer of the last ones yet.
				for took := 0; took < 5; {
					var got taken
					s.Into(&got, 200, 200, s.want(200, "/queues/mail/take", `{"worker":"w","limit":5}`))
					if len(got.Items) == 0 {
						t.Fatalf("took %d of 5 items that were just added, and no other", took)
					}
					took += len(got.Items)
				}
			}
		})
	}
}

// TestLimits: limits are set with the queue and later, and hold for takers.
func TestLimits(t *testing.T) {
	s := serve(t, `,"concurrency_per_group":1,"rate_per_key":{"count":5,"per_s":60},"max_items":4,"retention_s":60`)
	var set struct {
		PerGroup   int             `json:"concurrency_per_group"`
		Rate       *map[string]int `json:"rate_per_key"`
		MaxItems   int             `json:"max_items"`
		RetentionS float64         `json:"retention_s"`
	}
	limits := func(body string) {
		t.Helper()
		set.Rate = nil
		s.Into(&set, 200, 200, s.want(200, "/queues/mail/limits", body))
	}
	limits("{}")
	if set.PerGroup != 1 || (*set.Rate)["count"] != 5 || (*set.Rate)["per_s"] != 60 || set.MaxItems != 4 ||
		set.RetentionS != 60 {
		t.Errorf("%+v", set)
	}
	s.want(201, "/queues/mail/items",
		`{"items":[{"payload":{"n":1},"group":"g"},{"payload":{"n":2},"group":"g"},{"payload":{"n":3}}]}`)
	if text := s.want(429, "/queues/mail/items", `{"items":[{"payload":4},{"payload":5}]}`); !strings.Contains(text,
		`"code":"queue_full"`) {
		t.Errorf("%s", text)
	}
	takes := func(want int) (got taken) {
		t.Helper()
		for end := time.Now().Add(time.Minute); len(got.Items) < want && time.Now().Before(end); {
			var out taken
			s.Into(&out, 200, 200, s.want(200, "/queues/mail/take", `{"worker":"w","limit":10}`))
			got.Items = append(got.Items, out.Items...)
		}
		return got
	}
	if got := takes(2); len(got.Items) != 2 || got.Items[0].Group == got.Items[1].Group {
		t.Errorf("took %+v", got)
	}
	if text := s.want(200, "/queues/mail/take", `{"worker":"w","limit":10}`); text != `{"items":[]}` {
		t.Errorf("took beyond the limit: %s", text)
	}
	limits(`{"concurrency_per_group":2,"rate_per_key":{"count":0}}`)
	if set.PerGroup != 2 || set.Rate != nil {
		t.Errorf("%+v", set)
	}
	if got := takes(1); len(got.Items) != 1 || got.Items[0].Payload.N != 2 {
		t.Errorf("took %+v", got)
	}
}

// TestAllFaults: an answer names every rule that a request breaks.
func TestAllFaults(t *testing.T) {
	s := serve(t, "")
	for path, c := range map[string]struct{ body, fields string }{
		"/queues": {
			`{"name":"Mail!","max_attempts":-1,"lease_s":0.5,"backoff_s":[1,-1]}`,
			"name max_attempts lease_s backoff_s[1]",
		},
		"/queues/mail/limits": {
			`{"concurrency":-1,"concurrency_per_group":10001,"rate_per_key":{"count":1,"per_s":0},"retention_s":-1,` +
				`"max_items":0}`,
			"concurrency concurrency_per_group rate_per_key.per_s retention_s max_items",
		},
		"/queues/mail/items": {
			`{"items":[{"payload":1,"priority":10},{"payload":1,"key":"a\u0000"}]}`,
			"items[0].priority items[1].key",
		},
		"/queues/mail/take": {`{"worker":"nats","limit":0,"lease_s":0}`, "worker limit lease_s"},

		"/queues/mail/cancel":       {`{"group":"g\u0000"}`, "group"},
		"/queues/mail/retry-failed": {`{"group":"g\u0000"}`, "group"},
	} {
		text := s.want(400, path, strings.Replace(c.body, "{", `{"prefix":1,`, 1))
		c.fields += " prefix"
		for field := range strings.FieldsSeq(c.fields) {
			if !strings.Contains(text, `"field":"`+field+`"`) {
				t.Errorf("%s: %s does not name %s", path, text, field)
			}
		}
	}
	for body, fields := range map[string]string{
		`{"items":[{"payload":1},{"payload":"\u0000"},{"payload":"\ud800"}]}`: "items[1].payload items[2].payload",
		`{"items":[{"payload":1,"key":"\ud800"}]}`:                            "items",
	} {
		text := s.want(400, "/queues/mail/items", body)
		for field := range strings.FieldsSeq(fields) {
			if !strings.Contains(text, `"field":"`+field+`"`) {
				t.Errorf("%s: %s does not name %s", body, text, field)
			}
		}
	}
	s.want(404, "/queues/mail%00/items", `{"items":[{"payload":1}]}`)
	s.want(404, "/queues/mail%FF/pause", `{}`)
	s.want(400, "/queues/mail/items", `{"items":[{"payload":"`+strings.Repeat("x", 64<<10)+`"}]}`)
}

// TestDeleteQueue: a queue is not deleted while items live, unless that is asked for.
func TestDeleteQueue(t *testing.T) {
	s := serve(t, "")
	s.want(201, "/queues/mail/items", `{"items":[{"payload":1,"key":"a"},{"payload":2,"key":"b"}]}`)
	if status, text := s.Delete("/queues/mail"); status != 409 || !strings.Contains(text, "and has 2") ||
		!strings.Contains(text, `"live_items"`) {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := s.Delete("/queues/mail?force=maybe"); status != 400 {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := s.Delete("/queues/mail?force=true"); status != 200 || !strings.Contains(text, `"items":2`) {
		t.Fatalf("%d %s", status, text)
	}
	for _, name := range []string{"mail", "shard-worker", "Mail"} {
		if status, text := s.Delete("/queues/" + name); status != 404 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	s.want(404, "/queues/mail/items", `{"items":[{"payload":{"n":1},"key":"a"}]}`)
	s.want(201, "/queues", `{"name":"mail"}`)
	s.want(201, "/queues/mail/items", `{"items":[{"payload":{"n":1},"key":"a"}]}`)
	if got := s.take(10); len(got.Items) != 1 || got.Items[0].Key != "a" {
		t.Errorf("took %+v", got)
	}
}
