// Package jobstest serves the routes of sources and their jobs for tests, and tells jobs of their sources.
package jobstest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/schemas/source"
)

// Site is a server on a database of its own, with sources and their jobs.
type Site struct {
	*trackingtest.Site
	Sources *sources.Store
	Jobs    *jobs.Store
	Bulk    *acts.Store
	seq     int64
}

// New makes the stores. Serve serves.
func New(t testing.TB, engine *embeddedtest.Postgres, cfg jobs.Config) *Site {
	t.Helper()
	s := &Site{Site: trackingtest.New(t, engine)}
	var err error
	if s.Sources, err = sources.New(s.Store.Pool()); err != nil {
		t.Fatal(err)
	}
	if s.Jobs, err = jobs.New(cfg, s.Store.Pool()); err != nil {
		t.Fatal(err)
	}
	s.Bulk = s.Acts(s.Sources.Subject(), s.Jobs.Subject())
	return s
}

// Handler has the routes of one stage.
type Handler interface {
	RegisterSources(endpoint.API)
	RegisterJobs(endpoint.API)
}

// both registers all routes of a handler.
type both struct{ Handler }

func (h both) Register(api endpoint.API) {
	h.RegisterSources(api)
	h.RegisterJobs(api)
}

// Serve serves the routes of a handler, until the test ends.
func (s *Site) Serve(a *auth.Auth, h Handler) { s.Site.Serve(a, both{h}) }

// Tell applies an event about a source.
func (s *Site) Tell(kind string, id uuid.UUID, payload any) {
	s.T.Helper()
	s.seq++
	Tell(s.T, s.Jobs, s.seq, kind, id, payload)
}

// Tell applies an event about a source, which has a sequence on the stream, to jobs.
func Tell(t testing.TB, of *jobs.Store, seq int64, kind string, id uuid.UUID, payload any) {
	t.Helper()
	text, err := json.Marshal(source.Event{
		ID: uuid.New(), Type: kind, SourceID: id, Timestamp: time.Now().UTC(), Payload: payload,
	})
	if err != nil {
		t.Fatal(err)
	}
	told, rule := source.ReadEvent(text)
	if rule != nil {
		t.Fatal(rule)
	}
	outcomes, _, err := of.Handle(t.Context(), []jobs.Event{{Told: told, Seq: seq, Stored: told.Timestamp}}, nil)
	if err != nil || outcomes[0] != jobs.Applied {
		t.Fatal(outcomes, err)
	}
}
