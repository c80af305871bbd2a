package userqueue_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestRefusals: what Postgres cannot hold is refused with its field and rule, so that
// nobody sends it again, and nothing of the request is added.
func TestRefusals(t *testing.T) {
	s, _ := open(t, func(*queue.Settings) {})
	nc := natstest.Start(t, stream.Config{}).Connect()
	embeddedtest.Go(t, func(ctx context.Context) error { return s.Serve(ctx, nc, embeddedtest.Log(t)) })
	whole := func(request string) (answer stream.Enqueued) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			m, err := nc.RequestWithContext(ctx, stream.WorkEnqueue, []byte(request))
			if err != nil && ctx.Err() == nil { // nobody serves yet
				time.Sleep(time.Millisecond)
				continue
			}
			if err == nil {
				err = json.Unmarshal(m.Data, &answer)
			}
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
	}
	ask := func(items string) stream.Enqueued { return whole(`{"queue":"mail","items":[` + items + `]}`) }
	for items, field := range map[string]string{
		`{"payload":1},{"payload":"a\u0000b"}`: "items[1].payload",
		`{"payload":{"a":[{"\u0000":1}]}}`:     "items[0].payload",
		`{"payload":"\ud800"}`:                 "items[0].payload",
		`{"payload":["\udc00"]}`:               "items[0].payload",
		`{"payload":"\ud800\ud800"}`:           "items[0].payload",
		`{"payload":"\uD83Dx\uDE00"}`:          "items[0].payload",
		`{"key":"a\ud800"}`:                    "items",
		`{"group":"\udfff"}`:                   "items",
		`{"key":"a\u0000"}`:                    "items[0].key",
		`{"payload":1,"run_at":"9999-12-31T23:59:59Z"},` +
			`{"priority":10}`: "items[1].priority",
	} {
		if a := ask(items); !a.Refused || !strings.Contains(a.Error, field+":") || len(a.Items) > 0 {
			t.Errorf("%s: %+v, want it to be refused by the field %s", items, a, field)
		}
	}
	for request, want := range map[string]string{
		`{"queue":"mail","items":[{"payload":1,"prority":5,"Key":"a"}],"itms":[]}`: "itms: is no field here: the nearest " +
			"is items, of items, queue\nitems[0].Key: is no field here: the nearest is key, of group, key, payload, " +
			"priority, run_at\nitems[0].prority: is no field here: the nearest is priority, of group, key, payload, " +
			"priority, run_at",
		`{"queue":"mail","items":[{"piority":1},{"priority":10}]}`: "items[0].piority: is no field here: the nearest is " +
			"priority, of group, key, payload, priority, run_at\nitems[1].priority: must be from 0 to 9",
		`{"queue":"mail","items":[{"priority":"5"}]}`:      "items.priority: must be a whole number, and is a string",
		`{"queue":"mail","items":[{"run_at":"tomorrow"}]}`: "items.run_at: must be",
		`{"queue":"mail","items":{}}`:                      "items: must be a list, and is a object",
		`[]`:                                               "request: must be a JSON object, and is a array",
		`{"queue":`:                                        "request: must be one JSON object: ",
	} {
		if a := whole(request); !a.Refused || !strings.HasPrefix(a.Error, want) || len(a.Items) > 0 {
			t.Errorf("%s: %+v, want %s", request, a, want)
		}
	}
	kept := `{"payload":"😀\ud83d\ude00\\u0000\\\\ud800"},{"payload":"\\"},{"payload":{"\\ud800":"\u0001"}},{"key":"\ufffd"}`
	if a := ask(kept); a.Refused || a.Error != "" || len(a.Items) != 4 {
		t.Errorf("%s: %+v", kept, a)
	}
	var live int
	if err := s.Queues().Pool().QueryRow(t.Context(), "SELECT count(*) FROM millrace.item").Scan(&live); err != nil ||
		live != 4 {
		t.Errorf("%d items, %v, want 4", live, err)
	}
}
