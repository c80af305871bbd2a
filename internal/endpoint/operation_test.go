package endpoint

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/schemas/shard"
)

// TestPostSize: 5,000 items with the longest names fit into a request, and there
// is an end.
func TestPostSize(t *testing.T) {
	type item struct {
		Filename   string `json:"filename"`
		Shard      int32  `json:"shard"`
		Generation int32  `json:"generation"`
	}
	log := slog.New(slog.DiscardHandler)
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	Post(API{Server: srv, Auth: auth.New(auth.Config{}), Log: log},
		Operation{ID: "count", Path: "/count", Scope: auth.Work},
		func(_ context.Context, in *Body[[]item]) (int, error) { return len(in.Body), nil })
	for n, want := range map[int]int{5000: http.StatusOK, 10_000: http.StatusRequestEntityTooLarge} {
		items := make([]item, n)
		for i := range items {
			items[i] = item{strings.Repeat("x", shard.MaxFilename), math.MaxInt32, math.MaxInt32}
		}
		body, err := json.Marshal(items)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/count",
			strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		srv.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%d items, %d bytes: %d %.200s", n, len(body), w.Code, w.Body)
		}
	}
}
