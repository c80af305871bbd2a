package uploads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/userqueue"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// TestGoClient: workers on the Go client can report all that workers over HTTP can, and a result that breaks a rule makes
// its row an error.
func TestGoClient(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.run(schema.Bounds{})
	embeddedtest.Go(s.t, s.feed.Run)
	kinds := []string{"done", "large", "missing", "skipped", "broken", "busy", "invalid", "wrong", "number", "huge"}
	var mu sync.Mutex
	tries := map[string]int{}
	work := func(ctx context.Context, it client.Item) error {
		var payload struct{ Input struct{ What string } }
		if err := json.Unmarshal(it.Payload, &payload); err != nil {
			return client.Permanent(err)
		}
		what := payload.Input.What
		mu.Lock()
		tries[what]++
		first := tries[what] == 1
		mu.Unlock()
		switch {
		case what == "missing":
			client.NotFound(ctx)
		case what == "skipped":
			client.Skipped(ctx)
		case what == "broken" && first:
			return errors.New("broken")
		case what == "busy" && first:
			return fmt.Errorf("asked the shop: %w", &client.Failure{
				Err: errors.New("busy"), Class: "network", Domain: "shop.example", RetryAfter: 20 * time.Millisecond,
			})
		case what == "invalid":
			return &client.Failure{Err: errors.New("no product"), Class: "invalid"}
		case what == "wrong":
			return client.Permanent(errors.New("wrong"))
		case what == "number":
			return client.SetResult(ctx, 5)
		case what == "large":
			return client.SetResult(ctx, map[string]string{"text": strings.Repeat("x", 100_000)})
		case what == "huge":
			if err := client.SetResult(ctx, strings.Repeat("x", 1<<20)); err != nil {
				return client.Permanent(err)
			}
		default:
			return client.SetResult(ctx, map[string]int{"n": 1})
		}
		return nil
	}
	embeddedtest.Go(t, func(ctx context.Context) error {
		return client.Work(ctx, s.nc, "enrich", work, client.WorkConfig{Grace: time.Nanosecond})
	})
	id := s.made("x.csv", []byte("what\n"+strings.Join(kinds, "\n")+"\n"), "processor", "enrich")
	j := s.until(id, "done", func(j uploads.Job) bool { return j.State == schema.Done })
	statuses, err := schema.ParseStatuses("")
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := s.store.Items(t.Context(), j, uploads.ItemsQuery{Statuses: statuses, ByRow: true, Limit: len(kinds)})
	if err != nil || len(all) != len(kinds) {
		t.Fatal(len(all), err)
	}
	want := map[string]string{
		"done": `DONE {"n":1}`, "large": `DONE {"text":"xxx`, "missing": "NOT_FOUND", "skipped": "SKIPPED", "broken": `DONE {"n":1}`,
		"busy": `DONE {"n":1}`, "invalid": "ERROR no product", "wrong": "ERROR wrong", "number": "ERROR result: must be a JSON object",
		"huge": "ERROR work: set the result",
	}
	attempts := map[string]int16{"missing": 2, "broken": 2, "busy": 2}
	for i, what := range kinds {
		got := all[i].Status.String() + " " + string(all[i].Result)
		if all[i].Error != nil {
			got += *all[i].Error
		}
		if !strings.HasPrefix(got, want[what]) || all[i].Attempts != max(attempts[what], 1) {
			t.Errorf("%s: %.60s after %d attempts, want %s", what, got, all[i].Attempts, want[what])
		}
	}
}

// TestGoClientElsewhere: in a queue of no upload, what the Go client says of rows fails the item with the reason, and a class
// of an error is left out.
func TestGoClientElsewhere(t *testing.T) {
	s := openShop(t, auth.Config{})
	var first sync.Once
	embeddedtest.Go(t, func(ctx context.Context) error {
		return client.Work(ctx, s.nc, "enrich", func(ctx context.Context, it client.Item) (err error) {
			switch it.Key {
			case "missing":
				client.NotFound(ctx)
			case "large":
				return client.Permanent(client.SetResult(ctx, strings.Repeat("x", 100_000)))
			case "busy":
				first.Do(func() { err = &client.Failure{Class: "429", RetryAfter: time.Millisecond} })
			}
			return err
		}, client.WorkConfig{Grace: time.Nanosecond})
	})
	want := map[string]string{"busy": "done", "missing": "failed not_found", "large": "failed work: set the result"}
	var items []userqueue.EnqueueItem
	for key := range want {
		items = append(items, userqueue.EnqueueItem{Key: key, Payload: json.RawMessage("1")})
	}
	if _, err := s.own.Enqueue(t.Context(), "enrich", items); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); len(want) > 0; time.Sleep(10 * time.Millisecond) {
		all, err := s.own.Items(t.Context(), userqueue.Page{Queue: s.q, Limit: 10})
		if err != nil || time.Now().After(end) {
			t.Fatal(want, all, err)
		}
		for _, it := range all {
			if strings.HasPrefix(strings.TrimSpace(it.State+" "+it.Error), want[it.Key]) {
				delete(want, it.Key)
			}
		}
	}
}
