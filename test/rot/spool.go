package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace-io/millrace/client/emit"
	"github.com/millrace-io/millrace/schemas/event"
)

// spoolPart is the spool of a client.
type spoolPart struct{}

const (
	spoolDir    = "spool"
	spoolEvents = 300
)

// began is when all events of a preparation happened.
var began = time.Now().UTC().Truncate(time.Second)

func (spoolPart) name() string { return "spool" }

func (spoolPart) files(dir string) ([]string, error) { return filesOf(dir) }

func (spoolPart) store(string) string { return "spool" }

// fill has a client take events while its server is away.
func (spoolPart) fill(ctx context.Context, dir, killed string) error {
	c, err := emit.Open(emit.Options{
		URL: "http://127.0.0.1:1", Service: "rot", Spool: filepath.Join(dir, spoolDir), SpoolSync: -1,
		Log: slog.New(slog.DiscardHandler), Breaker: emit.Breaker{Failures: 1, OpenFor: time.Hour},
	})
	if err != nil {
		return err
	}
	for i := range spoolEvents {
		if err := c.Emit(ctx, sampleEvent(i, 200)); err != nil {
			return err
		}
	}
	if err := copyStill(killed, dir); err != nil {
		return err
	}
	return c.Close(ctx)
}

// receiver takes events over HTTP.
type receiver struct {
	mu   sync.Mutex
	have facts
}

// ServeHTTP answers as Millrace does.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var in struct {
		event.Event
		Events []event.Event `json:"events"`
	}
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer := map[string]any{"accepted": len(in.Events)}
	if in.Events == nil {
		in.Events, answer = []event.Event{in.Event}, map[string]any{"status": "accepted"}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range in.Events {
		r.have["spool/"+e.ArticleURL] = fmt.Sprint(e.Stage, e.SourceName, e.ServiceName, e.OccurredAt.Unix())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(answer)
}

// open delivers what is in the spool.
func (spoolPart) open(ctx context.Context, dir string) (f finding, err error) {
	r, said := &receiver{have: facts{}}, &lines{}
	srv := httptest.NewServer(r)
	defer srv.Close()
	c, err := emit.Open(emit.Options{
		URL: srv.URL, Service: "rot", Spool: filepath.Join(dir, spoolDir), Log: slog.New(said),
	})
	if err != nil {
		return finding{Said: []string{err.Error()}}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err = c.Flush(ctx)
	if dropped := c.Health().Dropped; dropped > 0 {
		f.Said = append(f.Said, fmt.Sprintf("pipeline_emit_dropped_total: %d events of the spool are lost", dropped))
	}
	if err != nil {
		f.Said = append(f.Said, fmt.Sprintf("the spool is not delivered: %v: %s", err, c.Health().LastError))
	}
	err = c.Close(ctx)
	f.Said, f.Facts = append(f.Said, said.all...), r.have
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		f.Said = append(f.Said, err.Error())
	}
	return f, nil
}
