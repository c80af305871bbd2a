package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
)

type fixture struct {
	*Server
	log *bytes.Buffer // safe to read when no request is under way
}

func newServer(t *testing.T, cfg Config, checks ...Check) fixture {
	t.Helper()
	log := &bytes.Buffer{}
	cfg.Version = "1.2.3"
	s, err := New(cfg, Deps{
		Log:      slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registry: prometheus.NewRegistry(), Checks: checks,
		Site: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, "the page")
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return fixture{s, log}
}

type thing struct {
	Body struct {
		Name string `json:"name" maxLength:"5"`
	}
	Limit int    `query:"limit" minimum:"1" maximum:"10" default:"3"`
	Kind  string `query:"kind" enum:"a,b"`
}

func (f fixture) register() {
	huma.Register(f.API(), huma.Operation{Method: "POST", Path: "/things", OperationID: "things"},
		func(_ context.Context, in *thing) (*struct{}, error) {
			switch in.Body.Name {
			case "panic":
				panic("a bug")
			case "error":
				return nil, errors.New("the disk is on fire")
			case "busy":
				return nil, NewProblem(503, "come back",
					FieldError{"name", "busy", "must wait"}).WithHeader("Retry-After", "3")
			}
			return nil, nil
		})
	f.base.With(LimitBody(10)).Post("/plain", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			WriteProblem(w, BodyProblem(err))
			return
		}
		WriteProblem(w, Internal(errors.New("secret cause")))
	})
}

func (f fixture) do(method, target, contentType, body string) (*http.Response, Problem) {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8075"
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, r)
	var p Problem
	_ = json.Unmarshal(w.Body.Bytes(), &p)
	return w.Result(), p
}

func TestEveryErrorIsAProblem(t *testing.T) {
	f := newServer(t, Config{})
	f.register()
	const j = "application/json"
	for _, c := range []struct {
		name, method, target, contentType, body string
		status                                  int
		field, code                             string
	}{
		{"unknown path", "GET", "/api/v1/nothing", "", "", 404, "", ""},
		{"unknown path at the root", "GET", "/nothing", "", "", 404, "", ""},
		{"post to the site", "POST", "/", j, "{}", 404, "", ""},
		{"other method", "DELETE", "/api/v1/things", "", "", 405, "", ""},
		{"other method at the root", "POST", "/health", j, "{}", 405, "", ""},
		{"odd method", "BREW", "/health", j, "{}", 405, "", ""},
		{"broken JSON", "POST", "/api/v1/things", j, "{", 400, "", "invalid"},
		{"missing field", "POST", "/api/v1/things", j, "{}", 400, "name", "missing"},
		{"long field", "POST", "/api/v1/things", j, `{"name":"toolong"}`, 400, "name", "invalid"},
		{"parameter out of range", "POST", "/api/v1/things?limit=99", j, `{"name":"x"}`, 400, "limit", "invalid"},
		{"parameter of another type", "POST", "/api/v1/things?limit=x", j, `{"name":"x"}`, 400, "limit", "invalid"},
		{"parameter not in the list", "POST", "/api/v1/things?kind=x", j, `{"name":"x"}`, 400, "kind", "invalid"},
		{"no body", "POST", "/api/v1/things", j, "", 400, "", ""},
		{"content type", "POST", "/api/v1/things", "text/plain", `{"name":"x"}`, 415, "", "invalid"},
		{"large body", "POST", "/api/v1/things", j, `{"name":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "", ""},
		{"large plain body", "POST", "/api/v1/plain", j, strings.Repeat("x", 11), 413, "", "body_size"},
		{"handler's problem", "POST", "/api/v1/things", j, `{"name":"busy"}`, 503, "name", "busy"},
		{"handler's error", "POST", "/api/v1/things", j, `{"name":"error"}`, 500, "", ""},
		{"panic", "POST", "/api/v1/things", j, `{"name":"panic"}`, 500, "", ""},
		{"hidden cause", "POST", "/api/v1/plain", j, "x", 500, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, p := f.do(c.method, c.target, c.contentType, c.body)
			if r.StatusCode != c.status || p.Status != c.status || p.Title != http.StatusText(c.status) ||
				p.Type != "about:blank" {
				t.Fatalf("%d %+v", r.StatusCode, p)
			}
			if got := r.Header.Get("Content-Type"); got != problemType {
				t.Errorf("content type %q", got)
			}
			if c.code != "" && (len(p.Errors) == 0 || p.Errors[0].Field != c.field || p.Errors[0].Code != c.code ||
				p.Errors[0].Rule == "") {
				t.Errorf("errors are %+v, want %s %s", p.Errors, c.field, c.code)
			}
			if p.Detail == "" || strings.Contains(p.Detail, "secret") || strings.Contains(p.Detail, "fire") ||
				strings.Contains(p.Detail, "bug") {
				t.Errorf("detail is %q", p.Detail)
			}
		})
	}
	if r, _ := f.do("POST", "/api/v1/things", j, `{"name":"busy"}`); r.Header.Get("Retry-After") != "3" {
		t.Error("the problem's header is lost")
	}
	if r, _ := f.do("DELETE", "/api/v1/things", "", ""); r.Header.Get("Allow") != "POST" {
		t.Errorf("Allow is %q", r.Header.Get("Allow"))
	}
	for _, cause := range []string{"secret cause", "the disk is on fire", "a bug", "server_test.go"} {
		if !strings.Contains(f.log.String(), cause) {
			t.Errorf("the log does not have %q", cause)
		}
	}
}

func TestRoot(t *testing.T) {
	f := newServer(t, Config{})
	f.register()
	body := func(method, target string) (int, string) {
		r, _ := f.do(method, target, "", "")
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(text)
	}
	for target, want := range map[string]string{
		"/": "the page", "/health": `{"status":"ok","version":"1.2.3"}`, "/ready": `"status":"ready"`,
		"/metrics": "millrace_http_request_duration_seconds", "/openapi.json": `"openapi":"3.1.0"`,
	} {
		body("GET", "/health")
		if status, text := body("GET", target); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %.200s", target, status, text)
		}
	}
	if status, _ := body("HEAD", "/health"); status != 200 {
		t.Errorf("HEAD /health: %d", status)
	}
	_, text := body("GET", "/openapi.json")
	var doc struct {
		Servers []struct{ URL string }
		Paths   map[string]struct {
			Servers []struct{ URL string }
			Post    struct {
				Responses map[string]struct{ Content map[string]any }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Servers[0].URL != "api/v1" || doc.Paths["/ready"].Servers[0].URL != "." {
		t.Errorf("the description names absolute paths: %+v", doc)
	}
	if doc.Paths["/things"].Post.Responses["default"].Content[problemType] == nil {
		t.Errorf("errors are not described: %+v", doc.Paths["/things"])
	}
}

// TestReadyTellsLateFromDown: an error of a probe that itself waited in vain begins
// as that of a probe that was not waited for.
func TestReadyTellsLateFromDown(t *testing.T) {
	f := newServer(t, Config{}, Check{Name: "busy", Probe: func(context.Context) error {
		return fmt.Errorf("ask: %w", context.DeadlineExceeded)
	}})
	if got := f.readiness.now().Checks[0].Error; got != "no answer in time: ask: context deadline exceeded" {
		t.Errorf("%q", got)
	}
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail, probes atomic.Int32
		release := make(chan struct{})
		defer close(release)
		f := newServer(t, Config{},
			Check{Name: "good", Probe: func(context.Context) error { probes.Add(1); return nil }},
			Check{Name: "bad", Probe: func(context.Context) error {
				if fail.Load() > 0 {
					return errors.New("connection refused")
				}
				return nil
			}},
			Check{Name: "stuck", Timeout: time.Millisecond, Probe: func(context.Context) error {
				if fail.Load() > 0 {
					<-release
				}
				return nil
			}},
		)
		get := func() (int, Readiness) {
			w := httptest.NewRecorder()
			f.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/ready", nil))
			var state Readiness
			_ = json.Unmarshal(w.Body.Bytes(), &state)
			return w.Code, state
		}
		get()
		code, first := get()
		if code != 200 || first.Status != "ready" || probes.Load() != 1 {
			t.Errorf("%d %+v after %d probes", code, first, probes.Load())
		}
		fail.Store(1)
		time.Sleep(time.Millisecond) // so that what begins now begins later
		for range 2 {                // the stuck probe is not started a second time
			f.readiness.at = time.Time{}
			code, state := get()
			if code != 503 || state.Status != "not ready" || state.Checks[1].Error != "connection refused" ||
				state.Checks[2].Error == "" {
				t.Errorf("%d %+v", code, state)
			}
			if state.Checks[0].Since != first.Checks[0].Since || !state.Checks[1].Since.After(first.Checks[1].Since) {
				t.Errorf("since is wrong: %+v, before %+v", state, first)
			}
		}
	})
}

// TestLateProbe: the answer of a probe that came too late is of its own time,
// and not told as that of the next call.
func TestLateProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		r := newReadiness([]Check{{Name: "slow", Probe: func(ctx context.Context) error {
			if first {
				first = false
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}})
		if s := r.now(); s.Status != "not ready" {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute) // takes no time in here
		if s := r.now(); s.Status != "ready" {
			t.Errorf("a minute later: %+v", s)
		}
	})
}

// TestNeeds holds that only what the process can't do without keeps it from
// being ready, and that the answer tells of the rest all the same.
func TestNeeds(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	probe := func(context.Context) error {
		if down.Load() {
			return errors.New("away")
		}
		return nil
	}
	up := func(context.Context) error { return nil }
	behind := uint64(3)
	f := newServer(t, Config{}, Check{Name: "nats", Probe: up}, Check{Name: "postgres", Probe: probe, Need: Never},
		Check{Name: "projector", Probe: probe, Need: AtFirst, Note: func(context.Context) Note {
			return Note{Behind: &behind}
		}})
	for _, step := range []struct {
		down   bool
		status string
		needed [3]bool
	}{
		{true, "not ready", [3]bool{true, false, true}},
		{false, "ready", [3]bool{true, false, false}},
		{true, "ready", [3]bool{true, false, false}},
	} {
		down.Store(step.down)
		f.readiness.at = time.Time{}
		state := f.readiness.now()
		got := [3]bool{state.Checks[0].Needed, state.Checks[1].Needed, state.Checks[2].Needed}
		if state.Status != step.status || got != step.needed || (state.Checks[1].Status == "down") != step.down ||
			state.Checks[2].Behind == nil {
			t.Errorf("%+v, want %+v", state, step)
		}
	}
}

// TestDamage: /health is not ok while something that was stored is lost.
func TestDamage(t *testing.T) {
	var damage []string
	s, err := New(Config{Damage: func() []string { return damage }},
		Deps{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(text string) {
		t.Helper()
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/health", nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), text) {
			t.Errorf("/health: %d %s, want %s", w.Code, w.Body, text)
		}
	}
	expect(`"status":"ok"`)
	damage = []string{"stream EVENTS has lost 1 messages"}
	expect(`"status":"damaged"`)
	expect(`"damage":["stream EVENTS has lost 1 messages"]`)
}

// TestNotes holds that what needs attention is told, and is no reason not to
// be ready.
func TestNotes(t *testing.T) {
	behind := uint64(7)
	risk := "events can be lost"
	registry := prometheus.NewRegistry()
	s, err := New(Config{Warnings: []string{risk}}, Deps{
		Log: slog.New(slog.DiscardHandler), Registry: registry,
		Checks: []Check{
			{Name: "projector", Probe: func(context.Context) error { return nil }, Note: func(context.Context) Note {
				return Note{Warning: "look here", Behind: &behind, BehindSeconds: 1.5}
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, nil))
		return w.Code, w.Body.String()
	}
	if code, text := get("/ready"); code != 200 ||
		!strings.Contains(text, `"warning":"look here","behind":7,"behind_seconds":1.5`) {
		t.Errorf("/ready: %d %s", code, text)
	}
	if code, text := get("/health"); code != 200 || !strings.Contains(text, `"warnings":["`+risk+`"]`) {
		t.Errorf("/health: %d %s", code, text)
	}
}

func TestExposure(t *testing.T) {
	for addr, open := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:80": true, "localhost:80": true, "127.8.8.8:1": true,
		":8075": false, "0.0.0.0:8075": false, "[::]:80": false, "10.0.0.1:80": false, "example.com:80": false,
	} {
		_, err := New(Config{Addr: addr}, Deps{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
		if (err == nil) != open {
			t.Errorf("%s without a secret: %v", addr, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "AUTH_JWT_SECRET") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", addr, err)
		}
		if _, err := New(Config{Addr: addr, Protected: true},
			Deps{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()}); err != nil {
			t.Errorf("%s with a secret: %v", addr, err)
		}
	}
}

func TestTakenPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = newServer(t, Config{Addr: ln.Addr().String()}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "MILLRACE_HTTP_ADDR") ||
		!strings.Contains(err.Error(), ln.Addr().String()) {
		t.Errorf("got %v", err)
	}
}
