package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// TestAlso: what stands at a path of the API answers at another path of the root, with its parameters and
// its errors.
func TestAlso(t *testing.T) {
	s := newServer(t, Config{})
	s.Handle(&huma.Operation{
		OperationID: "thing", Method: http.MethodGet, Path: "/things/{id}/part",
		Parameters: []*huma.Param{{Name: "q", In: "query"}},
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		WriteJSON(w, http.StatusOK, PathParam(r, "id")+" "+r.URL.Query().Get("q"))
	}))
	s.Also("/api/old", "/things")
	for path, want := range map[string]string{
		"/api/v1/things/7/part?q=x":      "200 \"7 x\"\n",
		"/api/old/7/part?q=x":            "200 \"7 x\"\n",
		"/api/old/a%2Fb/part?q=%C3%A4":   "200 \"a/b ä\"\n",
		"/api/old/7/part?r=x":            "400",
		"/api/old/7":                     "404",
		"/api/old":                       "404",
		"/api/older/7/part":              "404",
		"/api/old/../old/7/part":         "404",
		"/api/old/7/part/../../8/part":   "404",
		"/api/old//api/v1/things/7/part": "404",
	} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
		got := strconv.Itoa(w.Code)
		if w.Code == http.StatusOK {
			got += " " + w.Body.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/old/7/part", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("another method: %d", w.Code)
	}
}
