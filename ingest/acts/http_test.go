package acts_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	ingest "github.com/millrace-io/millrace/ingest/acts"
	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// serve serves the commands on the queue mail, of which an item has failed.
func serve(t *testing.T) *trackingtest.Site {
	t.Helper()
	s := trackingtest.New(t, &engine)
	own := s.UserQueues("mail")
	errs, err := recrawl.New(own, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	store := s.Acts(items.New(own, s.Store), errs.Subject())
	v, err := own.Get(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	added, err := own.Enqueue(t.Context(), "mail", make([]userqueue.EnqueueItem, 1))
	if err != nil {
		t.Fatal(err)
	}
	failed := []queue.Command{{ID: added[0].ID, Error: "550 no such user"}}
	if _, err := own.Queues().Apply(t.Context(), v.ID, item.Fail, failed); err != nil {
		t.Fatal(err)
	}
	s.Serve(auth.New(auth.Config{Secret: trackingtest.Secret}), ingest.New(store, errs))
	s.Login("ann", auth.Admin)
	return s
}

// TestBegin: an act is begun once for each key of a caller, and says who has.
func TestBegin(t *testing.T) {
	s := serve(t)
	const retry = `{"move":"retry","filter":{"queue":"mail"}}`
	key := http.Header{"Idempotency-Key": {"k"}}
	for _, want := range []int{201, 200} {
		var a acts.Act
		status, text := s.PostWith(key, "/acts", retry)
		if s.Into(&a, want, status, text); a.ID != 1 || a.By != "ann" || a.Matched != 1 || !strings.Contains(text, `"filter":{"queue":"mail"}`) {
			t.Errorf("%s", text)
		}
	}
	other := `{"move":"retry","filter":{"queue":"mail","state":"dead"}}`
	if status, text := s.PostWith(key, "/acts", other); status != 409 || !strings.Contains(text, "Idempotency-Key") {
		t.Errorf("another act with the same key: %d %s", status, text)
	}
	var a acts.Act
	status, text := s.Post("/acts", other)
	if s.Into(&a, 201, status, text); a.Matched != 0 || a.State != acts.Finished {
		t.Errorf("nothing matched: %s", text)
	}
	for _, c := range []struct {
		path, body, field string
		status            int
	}{
		{"/acts", `{"move":"retry","filter":{"queue":"mailless"}}`, "queue", 404},
		{"/acts", `{"move":"retry","filter":{"filename":"none"}}`, "filename", 404},
		{"/acts", `{"move":"retry","filter":{}}`, "queue", 400},
		{"/acts", `{"move":"mend","filter":{"queue":"mail"}}`, "move", 400},
		{"/acts", `{"move":"retry","filter":{"queue":"mail","colour":"red"}}`, "colour", 400},
		{"/acts", `{"move":"cancel","filter":{"queue":"mail","state":"dead"}}`, "state", 400},
		{"/acts/99/stop", `{}`, "id", 404},
	} {
		if status, text := s.Post(c.path, c.body); status != c.status || !strings.Contains(text, c.field) {
			t.Errorf("POST %s %s: %d %s, want %d and %s", c.path, c.body, status, text, c.status, c.field)
		}
	}
	status, text = s.Post("/acts/1/stop", "{}")
	if s.Into(&a, 200, status, text); a.State != acts.Stopped || a.Left != 1 {
		t.Errorf("%s", text)
	}
}

// TestScopes: only operators begin and stop acts.
func TestScopes(t *testing.T) {
	s := serve(t)
	for scope, want := range map[auth.Scope][2]int{
		auth.Read: {403, 403}, auth.Work: {403, 403},
		auth.Admin: {201, 404},
	} {
		s.Login("bob", scope)
		begun, text := s.Post("/acts", `{"move":"retry","filter":{"queue":"mail"}}`)
		stopped, _ := s.Post("/acts/99/stop", "{}")
		if begun != want[0] || stopped != want[1] {
			t.Errorf("%s: %d %s, and %d, want %v", scope, begun, text, stopped, want)
		}
	}
}
