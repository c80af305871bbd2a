package shards

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// TestNamelessTakers: takers who give no name, and who have all read the same
// queue, start each item once.
func TestNamelessTakers(t *testing.T) {
	const items, takers = 40, 4
	s := serve(t, auth.Config{})
	var list []string
	for i := range items {
		list = append(list, fmt.Sprint(i))
	}
	s.Post("/files/register", fmt.Sprintf(`{"filename":%q,"shards":[%s]}`, file, strings.Join(list, ",")))
	s.Post("/stages/event-ingest/done", fmt.Sprintf(`{"filename":%q}`, file))
	var all sync.WaitGroup
	var mu sync.Mutex
	taken := map[int]int{}
	for range takers {
		all.Go(func() {
			for i := range items {
				switch status, text := s.Post("/stages/shard-splitter/start", itemBody(i)); status {
				case http.StatusOK:
					mu.Lock()
					taken[i]++
					mu.Unlock()
				case http.StatusConflict:
				default:
					t.Errorf("%d %s", status, text)
				}
			}
		})
	}
	all.Wait()
	for i := range items {
		if taken[i] != 1 {
			t.Errorf("shard %d is started %d times", i, taken[i])
		}
	}
}

// TestStartAgain: who has started an item, and has missed the answer, proves it by
// the worker's name or the idempotency key.
func TestStartAgain(t *testing.T) {
	s := serve(t, auth.Config{})
	s.Post("/files/register", `{"filename":"a","shards":[0,1,2]}`)
	s.Post("/stages/event-ingest/done", `{"filename":"a"}`)
	for _, step := range []struct {
		shard       int
		move        string
		worker, key string
		status      int
	}{
		{0, "start", "w", "", 200},
		{0, "start", "w", "", 200},
		{0, "start", "w", "k", 200}, // the name counts
		{0, "start", "", "k", 409},
		{0, "start", "v", "", 409},
		{0, "start", "", "", 409},
		{0, "done", "", "", 200},

		{1, "start", "", "k", 200},
		{1, "start", "", "k", 200},
		{1, "start", "", "l", 409},
		{1, "start", "", "", 409},
		{1, "start", "w", "k", 409},
		{1, "extend", "", "another", 200}, // a key is a start's
		{1, "fail", "", "another", 200},
		{1, "retry", "", "", 200},
		{1, "start", "", "", 200},
		{1, "start", "", "", 409},

		{2, "start", "", strings.Repeat("k", 197), 400},
		{2, "start", "", "k", 200}, // the same key for another item
	} {
		body := fmt.Sprintf(`{"filename":"a","shard":%d,"worker":%q,"lease_s":60}`, step.shard, step.worker)
		status, text := s.PostWith(http.Header{"Idempotency-Key": {step.key}},
			"/stages/shard-splitter/"+step.move, body)
		if status != step.status {
			t.Errorf("%+v: %d %s", step, status, text)
		}
	}
}

// TestAllFaults: a caller is told all that is wrong with a request at once, with
// its fields and with its document as such.
func TestAllFaults(t *testing.T) {
	s := serve(t, auth.Config{})
	for _, c := range []struct{ path, body, fields string }{
		{"/files/register?x=1", `{"filename":"a/b","shards":[0,-1],"priority":10}`, "priority x filename shards[1]"},
		{"/files/register", `{"filename":"a/b","shards":"no"}`, "shards filename"},
		{"/files/register", `{"shards":[]}`, "filename shards"},
		{"/files/register?x=1", `{"shards":[`, " x"},
		{"/stages/event-ingest/done", `{"filename":"..","delay_s":-1}`, "filename delay_s"},
		{
			"/stages/nope/jump", `{"filename":"a/b","shard":-1,"worker":"nats","lease_s":0,"delay_s":-1}`,
			"stage transition worker lease_s delay_s filename shard",
		},
		{"/stages/shard-worker/extend", `{"filename":"","shard":"x"}`, "shard lease_s filename"},
		{
			"/stages/nope/start/bulk", `{"items":[{"filename":"a/b","shard":0},{"filename":"a","shard":-1}],` +
				`"delay_s":-1}`,
			"stage delay_s items[0].filename items[1].shard",
		},
		{"/queues/nope/take", `{"worker":"nats","limit":0,"lease_s":0}`, "stage worker limit lease_s"},
		{"/queues/nope/limits", `{"concurrency":-1,"max_attempts":-1}`, "concurrency max_attempts stage"},
		{"/files/a%2Fb/priority", `{"priority":10}`, "priority filename"},
		{
			"/stages/nope/retry-failed", `{"filename":"a/b","prefix":"c/","delay_s":-1,"limit":0}`,
			"limit stage delay_s filename prefix",
		},
		{"/files/purge", `{"older_than_s":5,"limit":0}`, "limit older_than_s"},
	} {
		var p httpapi.Problem
		status, text := s.Post(c.path, c.body)
		s.Into(&p, http.StatusBadRequest, status, text)
		var fields []string
		for _, e := range p.Errors {
			fields = append(fields, e.Field)
		}
		if got := strings.Join(fields, " "); got != c.fields {
			t.Errorf("POST %s %s: the fields %q, want %q", c.path, c.body, got, c.fields)
		}
	}
}
