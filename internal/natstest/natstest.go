// Package natstest gives tests a real NATS server with Millrace's streams,
// syncing every write as the embedded one does, that they can stop and start.
package natstest

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	embedded "github.com/millrace-io/millrace/internal/embedded/nats"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Server is a server of one test.
type Server struct {
	t    testing.TB
	addr string
	dir  string
	stop func()
}

// Start runs a server until the test ends, and makes the streams.
func Start(t testing.TB, cfg stream.Config) *Server {
	t.Helper()
	s := &Server{t: t, addr: "127.0.0.1:0", dir: t.TempDir()}
	s.Start()
	t.Cleanup(s.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a busy machine's disk may stall
	defer cancel()
	if err := stream.Ensure(ctx, s.JetStream(), cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// Start runs the server again, at its old address with its old streams.
func (s *Server) Start() {
	s.t.Helper()
	srv, err := embedded.New(embedded.Config{
		Listen: s.addr[strings.LastIndex(s.addr, "@")+1:], StoreDir: s.dir,
		User: "millrace", Password: "test",
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	select {
	case <-srv.Ready():
	case err := <-done:
		cancel()
		s.t.Fatal(err)
	}
	s.addr = strings.TrimPrefix(srv.ClientURL(), "nats://") // with Millrace's login
	s.stop = func() { cancel(); <-done }
}

// Stop ends the server. Stopping twice is fine.
func (s *Server) Stop() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// Overwrite restarts the server with other bytes of the same length in the files of a stream,
// whose checksums stay as they were.
func (s *Server) Overwrite(name, old, text string) {
	s.t.Helper()
	s.Stop()
	files, err := filepath.Glob(filepath.Join(s.dir, "jetstream", "*", "streams", name, "msgs", "*.blk"))
	if err != nil || len(files) == 0 || len(old) != len(text) {
		s.t.Fatalf("overwrite %q in %d files of %s: %v", old, len(files), name, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte(old), []byte(text)), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.Start()
}

// Dir is the folder of the streams, for tests that damage files while the server is
// stopped.
func (s *Server) Dir() string { return s.dir }

// URL is where clients connect.
func (s *Server) URL() string { return "nats://" + s.addr }

// Connect returns a connection that outlives restarts of the server, which may
// be stopped, and closes with the test.
func (s *Server) Connect() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(s.URL(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// JetStream returns JetStream on a connection of its own.
func (s *Server) JetStream() jetstream.JetStream {
	s.t.Helper()
	js, err := jetstream.New(s.Connect())
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}

// IDs reads the event stream from its start and counts each event, by its
// message id. What is no event has the first word of its text for one.
func (s *Server) IDs() map[string]int {
	s.t.Helper()
	js := s.JetStream()
	info, err := js.Stream(s.t.Context(), stream.Events)
	if err != nil {
		s.t.Fatal(err)
	}
	consumer, err := info.OrderedConsumer(s.t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		s.t.Fatal(err)
	}
	ids := map[string]int{}
	for left := int(info.CachedInfo().State.Msgs); left > 0; {
		batch, err := consumer.Fetch(min(left, 1000))
		if err != nil {
			s.t.Fatal(err)
		}
		for m := range batch.Messages() {
			ids[idOf(m.Data())]++
			left--
		}
		if err := batch.Error(); err != nil {
			s.t.Fatal(err)
		}
	}
	return ids
}

func idOf(text []byte) string {
	var r event.Record
	if event.Decode(text, &r) == nil {
		return r.MessageID()
	}
	word, _, _ := strings.Cut(string(text), " ")
	return word
}
