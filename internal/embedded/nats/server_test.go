package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/millrace-io/millrace/schemas/stream"
)

// run starts a server, and returns it with what stops it and waits.
func run(t testing.TB, config Config) (*Server, func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if _, test := t.(*testing.T); test {
		log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	return runLogged(t, config, log)
}

func runLogged(t testing.TB, config Config, log *slog.Logger) (*Server, func()) {
	t.Helper()
	s, err := New(config, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// login is that of Millrace.
func login(t testing.TB, s *Server) nats.Option {
	t.Helper()
	option, err := s.Login(stream.RoleMillrace)
	if err != nil {
		t.Fatal(err)
	}
	return option
}

func connect(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func makeStream(t testing.TB, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	s, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: "EVENTS", Subjects: []string{"events.*"}, AllowAtomicPublish: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func messages(ids ...string) []*nats.Msg {
	all := make([]*nats.Msg, len(ids))
	for i, id := range ids {
		all[i] = &nats.Msg{Subject: "events.a", Data: []byte(id), Header: nats.Header{jetstream.MsgIDHeader: {id}}}
	}
	return all
}

func TestStreamsOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	s, stop := run(t, Config{Listen: "127.0.0.1:0", StoreDir: dir})
	js := connect(t, s.ClientURL(), login(t, s))
	makeStream(t, js)
	for _, duplicate := range []bool{false, true} {
		ack, err := js.PublishMsg(t.Context(), messages("one")[0])
		if err != nil || ack.Duplicate != duplicate || ack.Sequence != 1 {
			t.Fatalf("publish = %+v, %v", ack, err)
		}
	}
	stop()

	s, _ = run(t, Config{Listen: "127.0.0.1:0", StoreDir: dir})
	js = connect(t, "", s.InProcess())
	ack, err := js.PublishMsg(t.Context(), messages("one")[0])
	if err != nil || !ack.Duplicate {
		t.Errorf("publish after a restart = %+v, %v, want a duplicate", ack, err)
	}
}

// A batch with a duplicate is refused as a whole, and leaves no trace: its other
// messages can be sent again at once.
func TestAtomicBatch(t *testing.T) {
	s, _ := run(t, Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	js := connect(t, s.ClientURL(), login(t, s))
	events := makeStream(t, js)
	publish := func(ids ...string) (*jetstreamext.BatchAck, error) {
		return jetstreamext.PublishMsgBatch(t.Context(), js, messages(ids...))
	}
	ack, err := publish("a", "b", "c")
	if err != nil || ack.Sequence != 3 || ack.BatchSize != 3 {
		t.Fatalf("batch = %+v, %v", ack, err)
	}
	for _, ids := range [][]string{{"d", "b", "e"}, {"d", "d"}} {
		if _, err = publish(ids...); !errors.Is(err, jetstreamext.ErrBatchPublishDuplicateMsgID) {
			var api *jetstream.APIError
			if !errors.As(err, &api) || api.ErrorCode != jetstreamext.JSErrCodeBatchPublishDuplicateMsgID {
				t.Fatalf("batch %v = %v, want error 10201", ids, err)
			}
		}
	}
	if ack, err = publish("d", "e"); err != nil || ack.Sequence != 5 {
		t.Fatalf("the rest = %+v, %v", ack, err)
	}
	if info, err := events.Info(t.Context()); err != nil || info.State.Msgs != 5 {
		t.Errorf("the stream holds %+v, %v", info, err)
	}
}

func TestLargestBatch(t *testing.T) {
	s, _ := run(t, Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	js := connect(t, "", s.InProcess())
	makeStream(t, js)
	ids := make([]string, 1001)
	for i := range ids {
		ids[i] = fmt.Sprint("id", i)
	}
	_, err := jetstreamext.PublishMsgBatch(t.Context(), js, messages(ids...))
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != jetstreamext.JSErrCodeBatchPublishExceedsLimit {
		t.Fatalf("1,001 messages = %v, want error 10199", err)
	}
	if ack, err := jetstreamext.PublishMsgBatch(t.Context(), js, messages(ids[:1000]...)); err != nil ||
		ack.Sequence != 1000 {
		t.Errorf("1,000 messages = %+v, %v", ack, err)
	}
}

func TestCredentials(t *testing.T) {
	s, _ := run(t, Config{Listen: "0.0.0.0:0", StoreDir: t.TempDir(), User: "mill", Password: "p@ss/word"})
	if !strings.HasPrefix(s.ClientURL(), "nats://mill:p%40ss%2Fword@127.0.0.1:") {
		t.Errorf("ClientURL = %s", s.ClientURL())
	}
	makeStream(t, connect(t, s.ClientURL(), login(t, s)))
	makeStream(t, connect(t, "", s.InProcess()))
	_, address, _ := strings.Cut(s.ClientURL(), "@")
	if _, err := nats.Connect("nats://" + address); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("connect without credentials = %v", err)
	}
}

// TestCrowdedRole: a role with all connections that it may have leaves room for Millrace and
// for other roles.
func TestCrowdedRole(t *testing.T) {
	s, _ := run(t, Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), MaxConnections: 8})
	for range 6 {
		connect(t, s.ClientURL())
	}
	const full = "maximum account active connections"
	if _, err := nats.Connect(s.ClientURL()); err == nil || !strings.Contains(err.Error(), full) {
		t.Errorf("a connection of the role too many: %v", err)
	}
	for s.srv.NumClients() > 6 { // until the server has removed the one that it refused
		time.Sleep(time.Millisecond)
	}
	for _, role := range []string{stream.RoleMillrace, stream.RoleWorker} {
		option, err := s.Login(role)
		if err != nil {
			t.Fatal(err)
		}
		connect(t, s.ClientURL(), option)
	}
}

// TestNoPlaintextPasswords: the server holds passwords as hashes and warns of
// nothing, whoever may log in and however long a password is.
func TestNoPlaintextPasswords(t *testing.T) {
	long := strings.Repeat("long ", 20)
	for name, config := range map[string]Config{
		"keys alone": {},
		"passwords":  {User: "mill", Password: long, Passwords: map[string]string{stream.RoleProducer: "p@ss word"}},
	} {
		t.Run(name, func(t *testing.T) {
			var printed lockedBuffer
			config.Listen, config.StoreDir = "127.0.0.1:0", t.TempDir()
			s, stop := runLogged(t, config, slog.New(slog.NewTextHandler(&printed, nil)))
			makeStream(t, connect(t, s.ClientURL(), login(t, s)))
			if config.User == "" {
				connect(t, s.ClientURL()) // as who has no login
			} else {
				_, address, _ := strings.Cut(s.ClientURL(), "@")
				connect(t, "nats://"+address, nats.UserInfo(stream.RoleProducer, "p@ss word"))
				for _, wrong := range []string{"", "p@ss", long[:72]} {
					if _, err := nats.Connect("nats://"+address,
						nats.UserInfo(stream.RoleProducer, wrong)); !errors.Is(err, nats.ErrAuthorization) {
						t.Errorf("password %q: %v", wrong, err)
					}
				}
			}
			stop()
			if text := printed.String(); strings.Contains(text, "level=WARN") {
				t.Errorf("the log warns:\n%s", text)
			}
		})
	}
}

// lockedBuffer takes what several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// TestKeys: keys are readable for their owner alone, and stay as they are.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	var before []byte
	for range 2 {
		s, stop := run(t, Config{Listen: "127.0.0.1:0", StoreDir: dir})
		for _, role := range []string{
			stream.RoleMillrace, stream.RoleProducer, stream.RoleSources, stream.RoleWorker, stream.RoleReader,
			stream.RoleOperator, stream.RoleAnalyser,
		} {
			info, err := os.Stat(KeyFile(dir, role))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("key of %s: %v, %v", role, info, err)
			}
		}
		makeStream(t, connect(t, s.ClientURL(), login(t, s)))
		key, err := os.ReadFile(KeyFile(dir, stream.RoleMillrace))
		if err != nil || before != nil && !bytes.Equal(key, before) {
			t.Errorf("key %q became %q, %v", before, key, err)
		}
		before = key
		stop()
	}
}

// TestStreamsFromBeforeRoles: a folder whose streams are in the account that
// servers have without roles goes on with them.
func TestStreamsFromBeforeRoles(t *testing.T) {
	dir := t.TempDir()
	old, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	old.Start()
	js := connect(t, old.ClientURL())
	events := makeStream(t, js)
	if _, err := events.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "c"}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsg(t.Context(), messages("one")[0]); err != nil {
		t.Fatal(err)
	}
	old.Shutdown()
	old.WaitForShutdown()

	s, _ := run(t, Config{Listen: "127.0.0.1:0", StoreDir: dir})
	js = connect(t, "", s.InProcess())
	if ack, err := js.PublishMsg(t.Context(), messages("one")[0]); err != nil || !ack.Duplicate {
		t.Errorf("publish = %+v, %v, want a duplicate", ack, err)
	}
	if _, err := js.Consumer(t.Context(), "EVENTS", "c"); err != nil {
		t.Errorf("the consumer is gone: %v", err)
	}
}

func TestBadConfigIsOneLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name   string
		config Config
		want   string
	}{
		{"no folder", Config{StoreDir: ""}, "no folder"},
		{"open to all", Config{Listen: "0.0.0.0:0"}, "MILLRACE_NATS_LISTEN=0.0.0.0:0 is open to other machines"},
		{"any host", Config{Listen: ":0"}, "MILLRACE_NATS_LISTEN=:0 is open to other machines"},
		{"no port", Config{Listen: "127.0.0.1"}, "MILLRACE_NATS_LISTEN=127.0.0.1 is not host:port"},
		{"no such port", Config{Listen: "127.0.0.1:70000"}, "no valid port"},
		{"half credentials", Config{User: "mill"}, "go together"},
		{"taken port", Config{Listen: taken.Addr().String()}, "is taken by another program: set MILLRACE_NATS_LISTEN"},
		{"folder is a file", Config{Listen: "127.0.0.1:0", StoreDir: "server.go"}, "make the folder of its streams"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.config.StoreDir == "" && c.name != "no folder" {
				c.config.StoreDir = t.TempDir()
			}
			s, err := New(c.config, slog.New(slog.DiscardHandler))
			if err == nil {
				err = s.Run(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line with %q", err, c.want)
			}
		})
	}
}

// TestTellsOfDamage: what the server logs of damaged files is an error, with words that
// it really uses: of its index, which a record behind is not in, and of its metadata.
func TestTellsOfDamage(t *testing.T) {
	dir := t.TempDir()
	s, stop := run(t, Config{Listen: "127.0.0.1:0", StoreDir: dir})
	js := connect(t, "", s.InProcess())
	for _, name := range []string{"ONE", "TWO"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}}); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	for _, file := range []string{"ONE/msgs/index.db", "TWO/meta.inf"} {
		file = filepath.Join(dir, "jetstream", stream.Account(stream.RoleMillrace), "streams", file)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log lockedBuffer
	_, stop = runLogged(t, Config{Listen: "127.0.0.1:0", StoreDir: dir}, slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelError})))
	stop()
	for _, want := range []string{"Filestore [ONE] Stream state checksum", "streams/TWO/meta.inf"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no error has %q:\n%s", want, log.String())
		}
	}
}
