package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/synadia-io/orbit.go/jetstreamext"

	embedded "github.com/millrace-io/millrace/internal/embedded/nats"
	"github.com/millrace-io/millrace/internal/integrity"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/stream"
)

// natsPart is the folder of the embedded NATS server, and the notes of the streams
// beside it.
type natsPart struct{}

const (
	natsDir   = "nats"
	notesFile = "streams"
)

func (natsPart) name() string { return "nats" }

func (natsPart) files(dir string) ([]string, error) {
	files, err := filesOf(filepath.Join(dir, natsDir))
	for i := range files {
		files[i] = filepath.Join(natsDir, files[i])
	}
	return append(files, notesFile), err
}

// store is the stream that a file is of, or what else the errors about it name.
func (natsPart) store(file string) string {
	if file == notesFile {
		return notesFile
	}
	if _, rest, ok := strings.Cut(filepath.ToSlash(file), "/streams/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		return name
	}
	if strings.HasSuffix(file, ".nk") {
		return strings.TrimSuffix(filepath.Base(file), ".nk")
	}
	return "NATS"
}

// server is an embedded server on a folder, and a connection to it.
type server struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	said *lines
	stop func() error
}

// startNATS starts the embedded server on the folder of an installation. A server
// that refuses is a refusal.
func startNATS(ctx context.Context, dir string) (*server, error) {
	said := &lines{}
	srv, err := embedded.New(embedded.Config{
		Listen: "127.0.0.1:0", StoreDir: filepath.Join(dir, natsDir),
	}, slog.New(said))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	select {
	case <-srv.Ready():
	case err := <-done:
		cancel()
		return nil, refusal{err}
	}
	s := &server{said: said}
	s.stop = func() error {
		if s.nc != nil {
			s.nc.Close()
		}
		cancel()
		return <-done
	}
	if s.nc, err = nats.Connect("", srv.InProcess()); err != nil {
		return nil, errors.Join(refusal{err}, s.stop())
	}
	s.js, err = jetstream.New(s.nc)
	return s, err
}

// refusal is the error of a server that does not start on a damaged folder.
type refusal struct{ error }

func (natsPart) open(ctx context.Context, dir string) (f finding, err error) {
	s, err := startNATS(ctx, dir)
	var refused refusal
	if errors.As(err, &refused) {
		return finding{Said: []string{err.Error()}, Refused: true}, nil
	}
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	return s.examine(ctx, dir)
}

// examine does what a start of Millrace does with its streams.
func (s *server) examine(ctx context.Context, dir string) (f finding, err error) {
	err = ensure(ctx, s.js)
	if err != nil {
		f.Said = append(f.Said, err.Error())
	}
	checker, err := integrity.New(integrity.Config{File: filepath.Join(dir, notesFile), ScrubShare: 1}, s.nc,
		prometheus.NewRegistry(), slog.New(s.said))
	if err != nil {
		return f, err
	}
	for _, look := range []func() error{
		func() error { return checker.Look(ctx) },
		func() error {
			for _, st := range integrity.Streams() {
				if err := checker.Scrub(ctx, st); err != nil {
					return err
				}
			}
			return nil
		},
		func() error { return checker.Look(ctx) },
	} {
		if err := look(); err != nil {
			f.Said = append(f.Said, err.Error())
		}
	}
	f.Said = append(f.Said, checker.Damage()...)
	f.Said = append(f.Said, s.positions(ctx)...)
	f.Facts, err = s.read(ctx, &f.Said)
	if err != nil {
		f.Said = append(f.Said, err.Error())
	}
	return f, nil
}

// positions is what reading the checkpoints says.
func (s *server) positions(ctx context.Context) (said []string) {
	kv, err := s.js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return []string{"KV_" + stream.Checkpoints + ": " + err.Error()}
	}
	l, err := assignment.ReadLayout(ctx, kv)
	if err != nil {
		return []string{"KV_" + stream.Checkpoints + ": " + err.Error()}
	}
	for _, g := range l.All() {
		e, err := fold.ReadLog[funnel.Counts](ctx, kv, g.Key())
		if err == nil {
			err = e.Damage
		}
		if err != nil {
			said = append(said, "KV_"+stream.Checkpoints+": "+err.Error())
		}
	}
	return said
}

// read reads every message of every stream, and how far consumers are.
func (s *server) read(ctx context.Context, said *[]string) (facts, error) {
	f := facts{}
	var failures []error
	for _, st := range integrity.Streams() {
		str, err := s.js.Stream(ctx, st.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err == nil {
			err = s.readStream(ctx, str, f, said)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("read %s: %w", st.Name, err))
		}
	}
	c, err := s.js.Consumer(ctx, stream.Work, stage)
	if err != nil {
		return f, errors.Join(failures...) // it is made anew, and begins anew
	}
	info := c.CachedInfo()
	config, err := json.Marshal(info.Config)
	if err != nil {
		return nil, err
	}
	settings := map[string]json.RawMessage{}
	if err := json.Unmarshal(config, &settings); err != nil {
		return nil, err
	}
	for _, name := range []string{"max_ack_pending", "max_deliver", "pause_until", "ack_wait"} {
		delete(settings, name) // Postgres has them, from where they are put back
	}
	for name, value := range settings {
		f[stream.Work+"/"+name+" of its consumer"] = string(value)
	}
	f[stream.Work+"/"+passed] = fmt.Sprint(info.AckFloor.Stream)
	return f, errors.Join(failures...)
}

// passed is the fact of how far a consumer is. One that is not as far gets messages
// again, which is harmless.
const passed = "consumer has passed"

// readStream reads what a stream delivers.
func (s *server) readStream(ctx context.Context, str jetstream.Stream, f facts, said *[]string) error {
	add := func(subject string, header nats.Header, data []byte, seq uint64) {
		if bookkeeping(subject) {
			return
		}
		if err := refuse(str.CachedInfo().Config.Name, subject, data); err != nil {
			*said = append(*said, fmt.Sprintf("a reader of %s refuses message %d: %v", str.CachedInfo().Config.Name, seq, err))
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%v\n%s", subject, header.Get(jetstream.MsgIDHeader), data))
		f[fmt.Sprintf("%s/%d", str.CachedInfo().Config.Name, seq)] = string(sum[:8])
	}
	if str.CachedInfo().Config.Retention == jetstream.WorkQueuePolicy { // which has no room for another consumer
		return s.readDirect(ctx, str, add)
	}
	c, err := str.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	for n := 1; n > 0; {
		batch, err := c.FetchNoWait(1000)
		if err != nil {
			return err
		}
		n = 0
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			add(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream)
			n++
		}
	}
	return nil
}

func (s *server) readDirect(
	ctx context.Context, str jetstream.Stream, add func(string, nats.Header, []byte, uint64),
) error {
	for state, from := str.CachedInfo().State, uint64(1); from <= state.LastSeq; {
		msgs, err := jetstreamext.GetBatch(ctx, s.js, str.CachedInfo().Config.Name, 1000, jetstreamext.GetBatchSeq(from))
		if err != nil {
			return err
		}
		last := uint64(0)
		for m, err := range msgs {
			if errors.Is(err, jetstreamext.ErrNoMessages) {
				break
			}
			if err != nil {
				return err
			}
			last = m.Sequence
			add(m.Subject, m.Header, m.Data, m.Sequence)
		}
		if last == 0 {
			break
		}
		from = last + 1
	}
	return nil
}

// refuse returns why the reader of a stream makes a dead letter of a message, or logs
// that it passes it over.
func refuse(name, subject string, data []byte) error {
	switch name {
	case stream.Events:
		var r event.Record
		if invalid := event.Decode(data, &r); invalid != nil {
			return invalid
		}
		if !stream.MatchesSubject(subject, r.Stage, r.URLHash) {
			return fmt.Errorf("its subject %s is that of another event", subject)
		}
	case stream.Shards, stream.Sources:
		if !json.Valid(data) {
			return errors.New("it is no JSON text")
		}
	case stream.WorkAcks:
		_, err := stream.ParseWorkAnswer(subject, data)
		return err
	}
	return nil
}

// bookkeeping tells whether a message is one that a checker itself has written.
func bookkeeping(subject string) bool {
	return strings.Contains(subject, ".lost.") || strings.Contains(subject, ".accepted.")
}

func ensure(ctx context.Context, js jetstream.JetStream) error {
	// Small blocks, so that a stream has several.
	if err := stream.Ensure(ctx, js, stream.Config{MaxBytes: 2 << 20}); err != nil {
		return err
	}
	return stream.EnsureWork(ctx, js, []string{stage}, stream.WorkConfig{})
}

// lines keeps log lines of level ERROR.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, text)
	return nil
}

func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *lines) WithGroup(string) slog.Handler      { return l }
