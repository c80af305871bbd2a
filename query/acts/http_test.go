package acts_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	query "github.com/millrace-io/millrace/query/acts"
	"github.com/millrace-io/millrace/schemas/item"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// owners are the private groups of users, in any queue.
type owners map[string][]string

func (o owners) Groups(_ context.Context, subject, _ string) ([]string, error) {
	return o[subject], nil
}

// TestReads: whoever may read sees what failed, what an act would be about, and
// what acts have done to whom.
func TestReads(t *testing.T) {
	s := trackingtest.New(t, &engine)
	own := s.UserQueues("mail")
	errs, err := recrawl.New(own, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	of := items.New(own, s.Store)
	store := s.Acts(of, errs.Subject())
	s.Serve(auth.New(auth.Config{Secret: trackingtest.Secret}), query.New(store, of, owners{"cat": {userqueue.PrivateGroup + "1"}}))
	// The description has types for filters also where no operation begins an act, as in the role query.
	if _, text := s.Get("/openapi.json"); !strings.Contains(text, `"anyOf":[{"$ref":"#/components/schemas/ItemFilter"}]`) {
		t.Error("the filter of a record is described without its types")
	}
	if status, _ := s.Get("/acts"); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	s.Login("ann", auth.Read)
	v, err := own.Get(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	added, err := own.Enqueue(t.Context(), "mail", []userqueue.EnqueueItem{{Key: "a"}, {Key: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	failed := []queue.Command{{ID: added[0].ID, Error: "no user 1"}, {ID: added[1].ID, Error: "no user 2"}}
	if _, err := own.Queues().Apply(t.Context(), v.ID, item.Fail, failed); err != nil {
		t.Fatal(err)
	}
	get := func(path string, want int, parts ...string) {
		t.Helper()
		status, text := s.Get(path)
		for _, part := range parts {
			if status != want || !strings.Contains(text, part) {
				t.Errorf("GET %s: %d %s, want %d and %s", path, status, text, want, part)
			}
		}
	}
	get("/failures?queue=mail", 200, `"fingerprint":"no user ‹n›","count":2,"example":"no user 1"`, `"items":2`)
	get("/failures?queue=mailless", 404, `"field":"queue"`)
	get("/failures", 400, `"field":"queue"`)
	get("/acts/count?move=retry&queue=mail&key=a", 200, `{"matched":1,"more":false}`)
	get("/acts/count?queue=mail", 400, `"field":"move"`)
	get("/acts", 200, `{"items":[]}`)
	for range 2 {
		if _, _, err := store.Begin(t.Context(), acts.Request{
			Subject: items.Name, Move: items.Retry,
			Filter: items.ItemFilter{Queue: "mail"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if worked, err := store.Step(t.Context()); !worked || err != nil {
			t.Fatal(worked, err)
		}
	}
	get("/acts?limit=1", 200, `"id":2,`, `"next_cursor":"2"`)
	get("/acts?limit=1&cursor=2", 200, `"id":1,`, `"done":2,"skipped":0`)
	get("/acts/1/members", 200, `{"items":[]}`)
	get("/acts/2/members", 200, `"queue":"mail"`, `"key":"b","outcome":"skipped","reason":"is new"`)
	get("/acts/2", 200, `"state":"finished"`, `"skipped":2`)
	get("/acts/3", 404, `"field":"id"`)
	get("/acts/3/members", 404, `"field":"id"`)
	hidden, err := own.Enqueue(t.Context(), "mail", []userqueue.EnqueueItem{{Group: userqueue.PrivateGroup + "1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Queues().Apply(t.Context(), v.ID, item.Fail, []queue.Command{{ID: hidden[0].ID, Error: "secret"}}); err != nil {
		t.Fatal(err)
	}
	get("/failures?queue=mail", 200, `"items":0`) // what is another's is not told
	// The second act skips the item that the first has retried.
	for range 2 {
		if _, _, err := store.Begin(t.Context(), acts.Request{
			Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: "mail"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if worked, err := store.Step(t.Context()); !worked || err != nil {
			t.Fatal(worked, err)
		}
	}
	get("/acts/4", 200, `"skipped":1`)
	get("/acts/4/members", 200, `{"items":[]}`)
	// An act on a private group tells nobody else which one.
	const private = `"filter":{"queue":"mail","group":"` + userqueue.PrivateGroup + `1"}`
	if _, _, err := store.Begin(t.Context(), acts.Request{
		Subject: items.Name, Move: items.Cancel, Filter: items.ItemFilter{Queue: "mail", Group: userqueue.PrivateGroup + "1"},
	}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/acts/5", "/acts"} {
		get(path, 200, `"id":5`, `"filter":{}`)
		if _, text := s.Get(path); strings.Contains(text, userqueue.PrivateGroup) {
			t.Errorf("GET %s tells of a private group: %s", path, text)
		}
	}
	for name, scope := range map[string]auth.Scope{"cat": auth.Read, "dan": auth.Admin} {
		s.Login(name, scope)
		get("/acts/5", 200, private)
		get("/acts", 200, private)
		get("/acts/4/members", 200, fmt.Sprintf(`"id":%d,`, hidden[0].ID), `"reason":"is new"`)
	}
}
