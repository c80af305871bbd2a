package live

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/queue"
)

// TestGreedyReader: a caller who has opened all feeds that may be open loses the newest to
// another caller.
func TestGreedyReader(t *testing.T) {
	f := NewTransitions(TransitionsConfig{Feeds: 3, Poll: time.Millisecond}, func(context.Context) (queue.Place, error) {
		return queue.Place{}, nil
	})
	api := endpoint.API{Log: slog.New(slog.DiscardHandler)}
	nothing := func(context.Context, queue.Place) ([]Transition, error) { return nil, nil }
	draining := make(chan struct{})
	feed := f.handler(api, draining, func(*http.Request) (Follow, error) { return nothing, nil })
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		feed.ServeHTTP(w, r.WithContext(auth.WithCaller(r.Context(), auth.Caller{Subject: r.URL.Path})))
	}))
	defer srv.Close()
	defer close(draining)
	open := func(caller string) *http.Response {
		t.Helper()
		resp, err := http.Get(srv.URL + "/" + caller)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	var greedy []*http.Response
	for range 3 {
		greedy = append(greedy, open("greedy"))
	}
	if resp := open("other"); resp.StatusCode != http.StatusOK {
		t.Errorf("another caller is kept out: %s", resp.Status)
	}
	if _, err := io.Copy(io.Discard, greedy[2].Body); err != nil { // which ends
		t.Error(err)
	}
	if resp := open("greedy"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("greedy comes again: %s", resp.Status)
	}
}
