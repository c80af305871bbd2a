package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/cmd/millrace/internal/tenanttest"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/schemas/stream"
)

// reviews is the line that a system has in systems, and what it does in each role.
var reviews = system{
	name: "reviews", postgres: true, open: openReviews,
	ingest: takeReviews, projector: foldReviews, query: readReviews,
}

var reviewWork *tenanttest.Work

func openReviews(n *node) (err error) {
	reviewWork, err = tenanttest.NewWork(n.stores.own, n.log)
	return err
}

func takeReviews(n *node) (share, error) {
	return share{
		parts:  []part{{"queue", reviewWork.Run}},
		routes: []func(endpoint.API){tenanttest.Commands{JetStream: n.js}.Register},
	}, nil
}

func foldReviews(n *node) (share, error) {
	view := tenanttest.View{NATS: n.nats, JetStream: n.js, Postgres: n.database.pool, Log: n.log}
	return share{parts: []part{{"view", view.Run}}}, nil
}

func readReviews(n *node) (share, error) {
	reads := tenanttest.Reads{Postgres: n.database.pool}
	return share{routes: []func(endpoint.API){reads.Register}, views: []live.View{reads.View()}}, nil
}

// installation is a process with all systems and reviews.
type installation struct {
	*testing.T
	addr string
}

func startReviews(t *testing.T) installation {
	t.Helper()
	var engine embeddedtest.Postgres
	engine.Start(t)
	pool := engine.Pool(t)
	all := systems
	systems = append(all[:len(all):len(all)], reviews)
	t.Cleanup(func() { systems = all })
	settings := nodeSettings{
		http: httpSettings{Addr: freeAddr(t)}, data: t.TempDir(), postgres: pool.Config().ConnString(),
		clickhouse: &clickhouse.Options{Addr: []string{freeAddr(t)}}, // which reviews do not need
	}
	if err := settings.pipeline.Stages.UnmarshalText([]byte("crawled,indexed")); err != nil {
		t.Fatal(err)
	}
	n, err := newNode(slog.New(slog.NewTextHandler(t.Output(), nil)), settings)
	if err != nil {
		t.Fatal(err)
	}
	server := natstest.Start(t, stream.Config{})
	n.nats = server.Connect()
	if err := tenanttest.Prepare(t.Context(), server.JetStream(), pool); err != nil {
		t.Fatal(err)
	}
	s := newStack(n.log)
	if err := n.run(t.Context(), s, roles{Ingest: true, Projector: true, Query: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(context.WithoutCancel(t.Context()), nil); err != nil {
			t.Error(err)
		}
	})
	return installation{t, settings.http.Addr}
}

// ask sends a request and reads the answer.
func (i installation) ask(method, path string, body, answer any) int {
	i.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		i.Fatal(err)
	}
	r, err := http.NewRequestWithContext(i.Context(), method, "http://"+i.addr+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		i.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		i.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		i.Fatal(method, path, resp.Status, err)
	}
	return resp.StatusCode
}

// TestTenant starts a system with a message, a view, a queue, a list and a live view beside all
// others. Each review counts once, however often it comes.
func TestTenant(t *testing.T) {
	i := startReviews(t)
	rng, want := rand.New(rand.NewPCG(1, 2)), map[string]string{}
	for n := range 60 {
		id, page := fmt.Sprint("r-", n), fmt.Sprint("/", n%4)
		for range 1 + rng.IntN(3) {
			var added tenanttest.AddedReview
			body := tenanttest.Review{ID: id, Page: page, Text: "fine"}
			if status := i.ask("POST", "/reviews", body, &added); status != http.StatusOK || added.Seq == 0 {
				t.Fatalf("POST /reviews: %d", status)
			}
		}
		want[id] = page
	}
	var refused struct {
		Errors []struct{ Field, Code string } `json:"errors"`
	}
	if status := i.ask("POST", "/reviews", tenanttest.Review{ID: "x"}, &refused); status != http.StatusBadRequest ||
		len(refused.Errors) != 1 || refused.Errors[0].Field != "page" {
		t.Errorf("a review without a page: %d %+v", status, refused)
	}
	i.work(len(want))
	i.awaitLive(fmt.Sprintf(`"states":{"done":%d}`, len(want)))
	got := map[string]string{}
	for cursor := ""; ; {
		var page tenanttest.ReviewPage
		if status := i.ask("GET", "/reviews?state=done&limit=7&cursor="+cursor, nil, &page); status != http.StatusOK {
			t.Fatalf("GET /reviews: %d", status)
		}
		for _, r := range page.Items {
			got[r.ID] = r.Page
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the list has %v, want %v", got, want)
	}
	var page tenanttest.ReviewPage
	if i.ask("GET", "/reviews?page=/1", nil, &page); len(page.Items) != len(want)/4 {
		t.Errorf("%d reviews of one page, want %d", len(page.Items), len(want)/4)
	}
	if status := i.ask("GET", "/reviews?cursor=no", nil, &refused); status != http.StatusBadRequest {
		t.Errorf("a damaged cursor: %d", status)
	}
}

// work takes so many items from the queue and ends them.
func (i installation) work(n int) {
	i.Helper()
	for deadline := time.Now().Add(time.Minute); n > 0; {
		if time.Now().After(deadline) {
			i.Fatalf("%d items are missing", n)
		}
		type ref struct{ ID, Generation int64 }
		var taken struct{ Items []ref }
		if i.ask("POST", "/queues/reviews/take", map[string]any{"worker": "w", "limit": 20}, &taken) != http.StatusOK {
			time.Sleep(10 * time.Millisecond) // the queue is not there yet
			continue
		}
		for _, it := range taken.Items {
			var moved any
			body := map[string]any{"worker": "w", "generation": it.Generation}
			if status := i.ask("POST", fmt.Sprintf("/queues/reviews/items/%d/done", it.ID), body, &moved); status != 200 {
				i.Fatalf("done: %d %v", status, moved)
			}
			n--
		}
	}
}

// awaitLive reads the live view until a state of it has the text.
func (i installation) awaitLive(text string) {
	i.Helper()
	r, err := http.NewRequestWithContext(i.Context(), "GET", "http://"+i.addr+"/api/v1/live/sse?view=reviews", nil)
	if err != nil {
		i.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		i.Fatal(err)
	}
	defer resp.Body.Close()
	stop := time.AfterFunc(time.Minute, func() { resp.Body.Close() })
	defer stop.Stop()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	i.Fatalf("the live view ends without %s: %v", text, lines.Err())
}
