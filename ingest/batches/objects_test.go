package batches

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/httpapi/contracttest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

type site struct {
	t      *testing.T
	url    string // of objects
	base   string
	nats   *natstest.Server
	js     jetstream.JetStream
	client *http.Client
	bearer string
}

func serve(t *testing.T, cfg auth.Config) *site {
	t.Helper()
	server := natstest.Start(t, stream.Config{})
	s := &site{t: t, nats: server, js: server.JetStream()}
	log := slog.New(slog.DiscardHandler)
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	modes, err := NewModes(s.js, schema.Modes{New: true, Legacy: true, NewShare: 1})
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Deps{JetStream: s.js, Objects: objects.NewNATS(s.js, 1), Modes: modes, Auth: auth.New(cfg), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	h.Register(endpoint.API{Server: srv, Auth: h.deps.Auth, Log: log})
	// Every answer is held to the description.
	s.client = &http.Client{Transport: contracttest.Of(t, srv.Handler()).Transport(http.DefaultTransport,
		func(err error) { t.Error(err) })}
	web := httptest.NewServer(srv.Handler())
	t.Cleanup(web.Close)
	s.url = web.URL + "/api/v1/objects/"
	s.base = web.URL + "/api/v1"
	return s
}

// put sends an object and returns the status, and what the answer says: the document of an
// object, or the codes of a problem.
func (s *site) put(path string, body io.Reader) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+s.bearer)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	var told struct {
		StoredObject
		Errors []httpapi.FieldError
	}
	if err := json.NewDecoder(answer.Body).Decode(&told); err != nil {
		s.t.Fatal(err)
	}
	if len(told.Errors) > 0 {
		return answer.StatusCode, told.Errors[0].Field + ":" + told.Errors[0].Code
	}
	if told.Key == "" {
		return answer.StatusCode, ""
	}
	return answer.StatusCode, fmt.Sprintf("%s %s %d %s", told.Bucket, told.Key, told.Size, told.SHA256[:8])
}

// TestPutObject: an object is stored once, under the name that the path has, and only there.
func TestPutObject(t *testing.T) {
	s := serve(t, auth.Config{})
	long := strings.Repeat("k", 1025)
	for i, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"crawls/a.json", "[1]", 201, "crawls a.json 3 080a9ed4"},
		{"crawls/a.json", "[1]", 200, "crawls a.json 3 080a9ed4"},
		{"crawls/a.json", "[2]", 409, "key:object_exists"},
		{"crawls/tiktok/2026/a.json", "[1]", 201, "crawls tiktok/2026/a.json 3 080a9ed4"},
		{"crawls/tiktok%2F2026%2Fa.json", "[1]", 200, "crawls tiktok/2026/a.json 3 080a9ed4"},
		{"crawls/a%20b+%D0%BA%25", "", 201, "crawls a b+к% 0 e3b0c442"},
		{"crawls/../other/a", "[1]", 400, "key:object_name"},
		{"crawls/%2E%2E/other/a", "[1]", 400, "key:object_name"},
		{"crawls/a%2F..%2Fb", "[1]", 400, "key:object_name"},
		{"crawls//a", "[1]", 400, "key:object_name"},
		{"crawls/a/", "[1]", 400, "key:object_name"},
		{"crawls/a%00", "[1]", 400, "key:object_name"},
		{"crawls/a%FF", "[1]", 400, "key:object_name"},
		{"crawls/", "[1]", 400, "key:object_name"},
		{"c/a", "[1]", 400, "key:object_name"},
		{"my.bucket/a", "[1]", 400, "key:object_name"},
		{"crawls/" + long, "[1]", 400, "key:object_name"},
		{"crawls/a.json?x=1", "[1]", 400, "x:parameter_unknown"},
	} {
		if status, says := s.put(c.path, strings.NewReader(c.body)); status != c.status || says != c.says {
			t.Errorf("%d: %.60s: %d %s, want %d %s", i, c.path, status, says, c.status, c.says)
		}
	}
	bucket, err := s.js.ObjectStore(t.Context(), "crawls")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := bucket.GetString(t.Context(), "tiktok/2026/a.json"); err != nil || text != "[1]" {
		t.Errorf("the client reads %q, %v", text, err)
	}
	all, err := bucket.List(t.Context())
	if err != nil || len(all) != 3 {
		t.Errorf("%d objects, %v", len(all), err)
	}
}

// TestPutObjectBounds: a body that is too large is refused, whatever it says of its size, and
// one that ends in the middle leaves nothing.
func TestPutObjectBounds(t *testing.T) {
	s := serve(t, auth.Config{})
	large := make([]byte, objects.MaxSize+1)
	if status, says := s.put("crawls/declared", bytes.NewReader(large)); status != 413 || says != ":body_size" {
		t.Errorf("declared: %d %s", status, says)
	}
	status, says := s.put("crawls/chunked", io.MultiReader(bytes.NewReader(large)))
	if status != 413 || says != ":body_size" {
		t.Errorf("chunked: %d %s", status, says)
	}
	if status, says := s.put("crawls/most", bytes.NewReader(large[1:])); status != 201 {
		t.Errorf("as much as may be: %d %s", status, says)
	}
	body, send := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+"crawls/left", body)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = send.Write(large[:3<<20])
		_ = send.CloseWithError(errors.New("the caller leaves"))
	}()
	if _, err := http.DefaultClient.Do(r); err == nil {
		t.Fatal("the caller has left, and has an answer")
	}
	bucket, err := s.js.Stream(t.Context(), "OBJ_crawls")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		info, err := bucket.Info(t.Context(), jetstream.WithSubjectFilter("$O.crawls.C.*"))
		if err == nil && len(info.State.Subjects) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("contents that are stored: %v, %v", info.State.Subjects, err)
		}
	}
}

// TestPutObjectNeedsScope, and what a caller is told while NATS is away.
func TestPutObjectNeedsScope(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	s := serve(t, auth.Config{Secret: secret})
	for scope, want := range map[auth.Scope]int{auth.Read: 403, auth.Work: 403, auth.EventsWrite: 201, "": 401} {
		s.bearer = ""
		if scope != "" {
			var err error
			if s.bearer, err = auth.Mint(secret, "crawler", []auth.Scope{scope}, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if status, says := s.put("crawls/a", strings.NewReader("[1]")); status != want {
			t.Errorf("%q: %d %s, want %d", scope, status, says, want)
		}
	}
	var err error
	if s.bearer, err = auth.Mint(secret, "crawler", []auth.Scope{auth.EventsWrite}, time.Hour); err != nil {
		t.Fatal(err)
	}
	s.nats.Stop()
	if status, says := s.put("crawls/b", strings.NewReader("[1]")); status != 503 {
		t.Errorf("without NATS: %d %s", status, says)
	}
	s.nats.Start()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		status, says := s.put("crawls/b", strings.NewReader("[1]"))
		if status == 201 || status == 200 {
			return
		}
		if status != 503 || time.Now().After(deadline) {
			t.Fatalf("with NATS again: %d %s", status, says)
		}
	}
}
