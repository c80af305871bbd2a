// Package trackingtest serves the routes of systems that have queues for tests.
package trackingtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/httpapi/contracttest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/projector/work"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Site is a server on a database of its own, with the work queues as they run
// in production.
type Site struct {
	T        testing.TB
	Store    *tracking.Store
	Hands    *handout.Handout
	Registry *prometheus.Registry
	Token    string // of the requests; empty: none
	NATS     *nats.Conn
	url      string
	contract *contracttest.Contract // what the server says that it answers
	js       jetstream.JetStream
}

// NewStore makes a store on a database of its own. Nothing runs.
func NewStore(t testing.TB, engine *embeddedtest.Postgres) *tracking.Store {
	t.Helper()
	pool := engine.Pool(t, queue.Configure)
	store := on(t, pool)
	CheckMoves(t, pool, store.Queues())
	return store
}

func on(t testing.TB, pool *pgxpool.Pool) *tracking.Store {
	t.Helper()
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{tracking.Kind{}, &userqueue.Kind{}}}, pool,
		embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	store, err := tracking.New(tracking.Config{}, queues, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Start makes the servers and runs the work queues; Serve serves.
func Start(t testing.TB, engine *embeddedtest.Postgres) *Site {
	t.Helper()
	pool := engine.Pool(t, queue.Configure)
	s := On(t, pool)
	CheckMoves(t, pool, s.Store.Queues())
	nc := natstest.Start(t, stream.Config{}).Connect()
	s.NATS = nc
	var err error
	if s.Hands, err = handout.New(nc, s.Store.Queues(), stream.WorkConfig{}); err != nil {
		t.Fatal(err)
	}
	service, err := work.New(work.Config{Poll: 10 * time.Millisecond, MendEvery: 20 * time.Millisecond}, work.Deps{
		NATS: nc, Store: s.Store.Queues(), Handout: s.Hands, Shards: s.Store, Registry: prometheus.NewRegistry(),
		Log: embeddedtest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.await(nc)
	return s
}

// await waits until there are queues to take from.
func (s *Site) await(nc *nats.Conn) {
	s.T.Helper()
	var err error
	if s.js, err = jetstream.New(nc); err != nil {
		s.T.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := s.js.Consumer(s.T.Context(), stream.Work, shard.Sender.String())
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.T.Fatal(err)
		}
	}
}

// Pull takes a message of a queue over NATS, as a daemon does that knows nothing else, and
// returns its body.
func (s *Site) Pull(queue string) []byte {
	s.T.Helper()
	c, err := s.js.Consumer(s.T.Context(), stream.Work, queue)
	if err != nil {
		s.T.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(30 * time.Second))
	if err != nil {
		s.T.Fatal(err)
	}
	return m.Data()
}

// InStep waits until what is ready in Postgres is what is on the stream.
func (s *Site) InStep() {
	s.T.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var ready, waiting uint64
		err := s.Store.Pool().QueryRow(s.T.Context(),
			"SELECT (SELECT count(*) FROM millrace.ready), (SELECT count(*) FROM millrace.outbox)").Scan(&ready,
			&waiting)
		if err != nil {
			s.T.Fatal(err)
		}
		st, err := s.js.Stream(s.T.Context(), stream.Work)
		if err != nil {
			s.T.Fatal(err)
		}
		messages := st.CachedInfo().State.Msgs
		if waiting == 0 && messages == ready && s.heard(st) {
			return
		}
		if time.Now().After(end) {
			s.T.Fatalf("%d items are ready, %d wait to be announced, %d messages are on the stream", ready,
				waiting, messages)
		}
	}
}

// heard tells whether consumers know of all messages: a server tells them a moment after it has stored one.
func (s *Site) heard(st jetstream.Stream) bool {
	s.T.Helper()
	all := st.ListConsumers(s.T.Context())
	for c := range all.Info() {
		info, err := st.Info(s.T.Context(), jetstream.WithSubjectFilter(c.Config.FilterSubject))
		if err != nil {
			s.T.Fatal(err)
		}
		var messages uint64
		for _, n := range info.State.Subjects {
			messages += n
		}
		if c.NumPending+uint64(c.NumAckPending) != messages {
			return false
		}
	}
	if err := all.Err(); err != nil {
		s.T.Fatal(err)
	}
	return true
}

// Messages are the items that the stream holds.
func (s *Site) Messages() (items []stream.WorkItem) {
	s.T.Helper()
	st, err := s.js.Stream(s.T.Context(), stream.Work)
	if err != nil {
		s.T.Fatal(err)
	}
	state := st.CachedInfo().State
	for seq := max(state.FirstSeq, 1); seq <= state.LastSeq; seq++ {
		m, err := st.GetMsg(s.T.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			s.T.Fatal(err)
		}
		it, err := stream.ParseWorkItem(m.Data)
		if err != nil {
			s.T.Fatal(err)
		}
		items = append(items, it)
	}
	return items
}

// New makes a site on a database of its own, without work queues.
func New(t testing.TB, engine *embeddedtest.Postgres) *Site {
	t.Helper()
	return On(t, engine.Pool(t, queue.Configure))
}

// On makes a site on a pool, without work queues.
func On(t testing.TB, pool *pgxpool.Pool) *Site {
	t.Helper()
	return &Site{T: t, Store: on(t, pool), Registry: prometheus.NewRegistry()}
}

// Serve serves what handlers register, until the test ends.
func (s *Site) Serve(a *auth.Auth, handlers ...interface{ Register(endpoint.API) }) {
	s.T.Helper()
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: embeddedtest.Log(s.T), Registry: s.Registry})
	if err != nil {
		s.T.Fatal(err)
	}
	for _, h := range handlers {
		h.Register(endpoint.API{Server: srv, Auth: a, Log: embeddedtest.Log(s.T)})
	}
	server := httptest.NewServer(srv.Handler())
	s.T.Cleanup(server.Close)
	s.url = server.URL
	s.contract = contracttest.Of(s.T, srv.Handler())
}

// URL is the address of a path, below the base of shards, of the other systems, or
// of the server.
func (s *Site) URL(path string) string {
	if path == "/openapi.json" || path == "/metrics" {
		return s.url + path
	}
	ofShards := path != "/queues" && !slices.ContainsFunc([]string{
		"/queues/mail", "/acts", "/failures", "/sources",
		"/jobs", "/events/log", "/crawl-errors", "/batches",
	},
		func(base string) bool { return strings.HasPrefix(path, base) })
	if ofShards {
		return s.url + "/api/v1/pipeline" + path
	}
	return s.url + "/api/v1" + path
}

// Post sends a document and returns the answer's status and text.
func (s *Site) Post(path, body string) (int, string) {
	s.T.Helper()
	return s.ask(http.MethodPost, nil, path, body)
}

// PostWith is Post with headers.
func (s *Site) PostWith(header http.Header, path, body string) (int, string) {
	s.T.Helper()
	return s.ask(http.MethodPost, header, path, body)
}

// Get asks, and returns the answer's status and text.
func (s *Site) Get(path string) (int, string) {
	s.T.Helper()
	return s.ask(http.MethodGet, nil, path, "")
}

// Do sends a request with a document, and headers beside what Post sets.
func (s *Site) Do(method string, header http.Header, path, body string) (int, string) {
	s.T.Helper()
	return s.ask(method, header, path, body)
}

// Delete asks for a deletion, and returns the answer's status and text.
func (s *Site) Delete(path string) (int, string) {
	s.T.Helper()
	return s.ask(http.MethodDelete, nil, path, "")
}

func (s *Site) ask(method string, header http.Header, path, body string) (int, string) {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, s.URL(path), strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	maps.Copy(r.Header, header)
	if _, given := header["Content-Type"]; body != "" && !given {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.Token != "" {
		r.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	if err := s.contract.Check(method, r.URL, resp, text); err != nil {
		s.T.Error(err)
	}
	if resp.StatusCode >= 400 && resp.Header.Get("Content-Type") != "application/problem+json" {
		s.T.Errorf("%s %s: %d %s is %s", method, path, resp.StatusCode, text, resp.Header.Get("Content-Type"))
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

// Into decodes an answer that has to be of a status.
func (s *Site) Into(into any, want, status int, text string) {
	s.T.Helper()
	if status != want {
		s.T.Fatalf("%d %s, want %d", status, text, want)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		s.T.Fatalf("%s: %v", text, err)
	}
}
