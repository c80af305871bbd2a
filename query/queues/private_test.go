package queues

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/schemas/item"
)

// owners has the private groups of users.
type owners map[string][]string

func (o owners) Groups(_ context.Context, subject, _ string) ([]string, error) {
	return o[subject], nil
}

// TestPrivate: an item of a private group is shown to its owner and to admins; for others with the scope read there is
// none, by any call.
func TestPrivate(t *testing.T) {
	s := trackingtest.New(t, &engine)
	store := s.UserQueues("mail")
	v, err := store.Get(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	group := userqueue.PrivateGroup + "1"
	s.Serve(auth.New(auth.Config{Secret: trackingtest.Secret}), New(live.TransitionsConfig{Poll: 5 * time.Millisecond}, store, owners{"ann": {group}}))
	begin, err := store.Queues().Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	added, err := store.Enqueue(t.Context(), "mail", []userqueue.EnqueueItem{
		{Group: group, Payload: []byte(`{"row":"secret"}`)}, {Payload: []byte(`{"row":"open"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Queues().Apply(t.Context(), v.ID, item.Fail,
		[]queue.Command{{ID: added[0].ID, Error: "secret"}, {ID: added[1].ID, Error: "open"}}); err != nil {
		t.Fatal(err)
	}
	for subject, c := range map[string]struct {
		scope auth.Scope
		sees  bool
	}{
		"ann": {auth.Read, true}, "bob": {auth.Read, false}, "": {auth.Work, false}, "root": {auth.Admin, true},
	} {
		s.Login(subject, c.scope, auth.Read)
		for _, path := range []string{"", "?state=dead", "?payload=row", "?group=" + group, "?unchanged_s=0"} {
			status, text := s.Get("/queues/mail/items" + path)
			if status != 200 || strings.Contains(text, "secret") != c.sees && path != "?state=dead" ||
				strings.Contains(text, "open") == strings.Contains(path, "group") && path != "?state=dead" {
				t.Errorf("%s %q: %d %s", subject, path, status, text)
			}
		}
		want := map[bool]int{true: 200, false: 404}[c.sees]
		if status, text := s.Get(fmt.Sprintf("/queues/mail/items/%d", added[0].ID)); status != want {
			t.Errorf("%s, the item: %d %s, want %d", subject, status, text, want)
		}
		all := read(t, s, begin.String(), 2)
		for _, e := range all {
			if e.Item == added[0].ID && !c.sees {
				t.Errorf("%s is told of %+v", subject, e)
			}
		}
		if c.sees && all[0].Item != added[0].ID {
			t.Errorf("%s is told of %+v", subject, all)
		}
	}
}
