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

// TestRawBody: a request that also has the text of its body is described as JSON only, which is what it takes.
func TestRawBody(t *testing.T) {
	type request struct {
		httpapi.Params
		RawBody []byte
		Body    struct {
			Name string `json:"name"`
		}
	}
	log := slog.New(slog.DiscardHandler)
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	api := API{Server: srv, Auth: auth.New(auth.Config{}), Log: log}
	Post(api, Operation{ID: "name", Path: "/name", Scope: auth.Work},
		func(_ context.Context, in *request) (string, error) { return string(in.RawBody), nil })
	for path, item := range srv.API().OpenAPI().Paths {
		if strings.HasSuffix(path, "/name") {
			content := item.Post.RequestBody.Content
			if len(content) != 1 || content["application/json"] == nil {
				t.Errorf("the body is described as %v", content)
			}
			return
		}
	}
	t.Fatal("the operation is not described")
}
