package queues

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/schemas/item"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// TestFeed: a reader of a queue gets what happens to its items and to no others,
// and misses nothing when he comes again.
func TestFeed(t *testing.T) {
	s := trackingtest.New(t, &engine)
	store := s.UserQueues("mail", "mail2")
	s.Serve(auth.New(auth.Config{}), New(live.TransitionsConfig{Poll: 5 * time.Millisecond}, store, nobody{}))
	if status, text := s.Get("/queues/mailless/transitions"); status != 404 {
		t.Errorf("of no queue: %d %s", status, text)
	}
	begin, err := store.Queues().Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, name := range []string{"mail2", "mail"} {
		added, err := store.Enqueue(t.Context(), name, make([]userqueue.EnqueueItem, 1))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, added[0].ID)
	}
	first := read(t, s, begin.String(), 1)
	if got := first[0]; got.Queue != "mail" || got.Item != ids[1] || got.Transition != "register" ||
		got.Status != "new" {
		t.Errorf("%+v", got)
	}
	v, err := store.Get(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	for _, move := range []item.Move{item.Start, item.Complete} {
		if _, err := store.Queues().Apply(t.Context(), v.ID, move,
			[]queue.Command{{ID: ids[1], Worker: "w"}}); err != nil {
			t.Fatal(err)
		}
	}
	rest := read(t, s, first[0].ID, 2)
	if rest[0].Transition != "start" || rest[0].Worker != "w" || rest[1].Transition != "done" ||
		rest[1].Status != "done" || rest[1].Attempt != 1 {
		t.Errorf("%+v", rest)
	}
}

// read returns the next n transitions of the queue mail behind a place.
func read(t *testing.T, s *trackingtest.Site, last string, n int) (all []UserQueueTransition) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL("/queues/mail/transitions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", last)
	if s.Token != "" {
		r.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); len(all) < n && lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var v UserQueueTransition
			if err := json.Unmarshal([]byte(data), &v); err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
	}
	if len(all) < n {
		t.Fatalf("the feed of %s has ended after %+v", resp.Status, all)
	}
	return all
}
