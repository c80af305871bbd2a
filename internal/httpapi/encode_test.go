package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// unencodableTime is later than JSON can say.
var unencodableTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// TestUnencodableAnswers: an answer that cannot be encoded is a problem with status 500, and
// one that fails in the middle is cut off. None looks like a whole answer with status 200.
func TestUnencodableAnswers(t *testing.T) {
	f := newServer(t, Config{})
	type answer struct {
		Body []time.Time
	}
	huma.Register(f.API(), huma.Operation{Method: "GET", Path: "/huma", OperationID: "huma"},
		func(context.Context, *struct{}) (*answer, error) {
			return &answer{Body: []time.Time{time.Now(), unencodableTime}}, nil
		})
	plain := map[string]http.HandlerFunc{
		"/plain": func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, 200, unencodableTime) },
		"/early": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Disposition", "attachment")
			Abort(Internal(errors.New("the cause")))
		},
		"/panic in the middle": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("half ", 2000))
			panic("a bug")
		},
		"/abort in the middle": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("half ", 2000))
			_ = http.NewResponseController(w).Flush()
			Abort(Internal(errors.New("the cause")))
		},
	}
	for path, handler := range plain {
		f.base.Get(strings.ReplaceAll(path, " ", "-"), handler)
	}
	web := httptest.NewServer(f.Handler())
	defer web.Close()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // else it asks again
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		for _, path := range []string{"/huma", "/plain", "/early", "/panic-in-the-middle", "/abort-in-the-middle"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/api/v1"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept-Encoding", encoding)
			resp, err := client.Do(req)
			if strings.HasSuffix(path, "middle") && err != nil {
				continue // nothing of it arrives
			}
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if strings.HasSuffix(path, "middle") {
				if err == nil && resp.StatusCode != 500 {
					t.Errorf("%s of %s looks whole: %s, %d bytes", encoding, path, resp.Status, len(body))
				}
				continue
			}
			var p Problem
			if err != nil || resp.StatusCode != 500 || json.Unmarshal(body, &p) != nil || p.Status != 500 ||
				resp.Header.Get("Content-Type") != problemType || resp.Header.Get("Content-Disposition") != "" {
				t.Errorf("%s of %s: %s %v %v: %s", encoding, path, resp.Status, resp.Header, err, body)
			}
		}
	}
	web.Close()
	for _, cause := range []string{"year outside of range", "the cause", "a bug"} {
		if !strings.Contains(f.log.String(), cause) {
			t.Errorf("the log does not have %q", cause)
		}
	}
}
