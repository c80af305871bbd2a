package deploy

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	embedded "github.com/millrace-io/millrace/internal/embedded/nats"
	"github.com/millrace-io/millrace/projector/work/pulls"
	"github.com/millrace-io/millrace/schemas/stream"
)

// site is a server with roles and Millrace's streams.
type site struct {
	url    string
	logins map[string]nats.Option // local has none
	js     jetstream.JetStream    // of Millrace
}

func (s site) connect(t *testing.T, role string) *nats.Conn {
	t.Helper()
	// refusals are looked for by what they prevent
	options := []nats.Option{nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if login := s.logins[role]; login != nil {
		options = append(options, login)
	}
	nc, err := nats.Connect(s.url, options...)
	if err != nil {
		t.Fatalf("connect as %s: %v", role, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func (s *site) prepare(t *testing.T) {
	t.Helper()
	var err error
	nc := s.connect(t, stream.RoleMillrace)
	if s.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	if err := stream.Ensure(t.Context(), s.js, stream.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := stream.EnsureWork(t.Context(), s.js, []string{"q"}, stream.WorkConfig{}); err != nil {
		t.Fatal(err)
	}
	broker, err := pulls.New(nc, func(string) time.Duration { return 30 * time.Second }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- broker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for err := nats.ErrNoResponders; errors.Is(err, nats.ErrNoResponders); { // until it is there
		_, err = nc.Request("millrace.pull.q", nil, 10*time.Millisecond)
	}
}

func embeddedSite(t *testing.T) site {
	t.Helper()
	srv, err := embedded.New(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-srv.Ready():
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	s := site{url: srv.ClientURL(), logins: map[string]nats.Option{}}
	for _, role := range []string{
		stream.RoleMillrace, stream.RoleProducer, stream.RoleSources, stream.RoleWorker, stream.RoleReader,
		stream.RoleOperator, stream.RoleAnalyser,
	} {
		if s.logins[role], err = srv.Login(role); err != nil {
			t.Fatal(err)
		}
	}
	s.prepare(t)
	return s
}

// clusterSite is one server of deploy/nats.conf, without the others.
func clusterSite(t *testing.T) site {
	t.Helper()
	s := site{logins: map[string]nats.Option{}}
	opts := natsOptions(t, "nats-1")
	for _, u := range opts.Users {
		s.logins[u.Username] = nats.UserInfo(u.Username, u.Password)
	}
	opts.Cluster, opts.Routes, opts.HTTPPort = server.ClusterOpts{}, nil, 0
	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT,
		t.TempDir(), true, true
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	s.url = srv.ClientURL()
	if _, err := nats.Connect(s.url); err == nil {
		t.Error("a client without a login is admitted")
	}
	s.prepare(t)
	return s
}

// taken marks a subject that Millrace's account publishes on after a role has published
// on another.
const taken = "*"

// publishing says which roles' messages reach Millrace on a subject.
var publishing = []struct{ subject, roles string }{
	{"events.crawled.00", "producer operator local"},
	{"events.crawled", ""},
	{"events.crawled.00.x", ""},
	{"shards.register", "producer operator local"},
	{"shards.shard-worker.done", "producer operator local"},
	{"sources.SOURCE_CREATED", "sources operator"},
	{"batches.data.collected", "producer operator local"},
	{"millrace.work.moves", "worker local"},
	{"millrace.known", "producer operator local"},
	{"millrace.processes", "operator"},
	{"$JS.API.CONSUMER.MSG.NEXT.WORK.q", taken},
	{"$JS.API.CONSUMER.INFO.WORK.q", "worker operator local"},
	{"$JS.ACK.WORK.q.1.1.1.1.0", taken},
	{"millrace.pull.q", "worker local"},          // what they publish on $JS.API.…
	{"millrace.ack.q.1.1.1.1.0", "worker local"}, // … and on $JS.ACK.…
	{"millrace.next.q", ""},
	{"millrace.out.a.b.1", ""},
	{"_R_.a.b", ""},
	{"$JS.ACK.EVENTS.c.1.1.1.1.0", "operator"},
	{"$JS.ACK.KV_millrace_checkpoints.c.1.1.1.1.0", ""},
	{"$JS.API.CONSUMER.MSG.NEXT.EVENTS.c", "operator"},
	{"$JS.API.STREAM.MSG.GET.EVENTS", "reader operator"},
	{"$JS.API.DIRECT.GET.EVENTS", "reader operator"},
	{"$JS.API.DIRECT.GET.EVENTS.events.crawled.00", "reader operator"},
	{"$JS.API.STREAM.INFO.EVENTS", "producer reader operator local"},
	{"$JS.API.STREAM.MSG.GET.SOURCES", "reader operator"},
	{"$JS.API.DIRECT.GET.SOURCES", "reader operator"},
	{"$JS.API.STREAM.INFO.SOURCES", "reader operator"},
	{"$JS.API.STREAM.PURGE.SOURCES", "operator"},
	{"$JS.API.CONSUMER.CREATE.SOURCES.mine", "operator"},
	{"$JS.API.CONSUMER.MSG.NEXT.SOURCES.c", "operator"},
	{"$JS.ACK.SOURCES.c.1.1.1.1.0", "operator"},
	{"$JS.API.DIRECT.GET.DLQ", "operator"},
	{"$JS.API.STREAM.MSG.GET.DLQ", "operator"},
	{"$JS.API.STREAM.MSG.DELETE.DLQ", "operator"},
	{"$JS.API.STREAM.PURGE.DLQ", "operator"},
	{"$JS.API.STREAM.PURGE.EVENTS", "operator"},
	{"$JS.API.STREAM.DELETE.EVENTS", "operator"},
	{"$JS.API.STREAM.UPDATE.DLQ", "operator"},
	{"$JS.API.STREAM.CREATE.mine", ""},
	{"$JS.API.STREAM.LIST", "operator"},
	{"$JS.API.INFO", "producer sources worker reader operator analyser local"},
	{"$JS.API.CONSUMER.CREATE.EVENTS.mine", "operator"},
	{"$JS.API.CONSUMER.CREATE.WORK.mine", "operator"},
	{"$JS.API.CONSUMER.DURABLE.CREATE.WORK.mine", "operator"},
	{"$JS.API.CONSUMER.DELETE.WORK.q", "operator"},
	{"$JS.API.CONSUMER.PAUSE.WORK.q", "operator"},
	{"$JS.API.STREAM.DELETE.KV_millrace_checkpoints", ""},
	{"$JS.API.STREAM.PURGE.KV_millrace_checkpoints", ""},
	{"$JS.API.STREAM.MSG.DELETE.KV_millrace_checkpoints", ""},
	{"$JS.API.STREAM.INFO.KV_millrace_checkpoints", ""},
	{"$JS.API.CONSUMER.CREATE.KV_millrace_checkpoints.mine", ""},
	{"$JS.API.DIRECT.GET.KV_millrace_checkpoints.$KV.millrace_checkpoints.funnel.0", ""},
	{"$JS.API.STREAM.PURGE.WORK_ACKS", ""},
	{"$JS.API.META.LEADER.STEPDOWN", ""},
	{"$KV.millrace_checkpoints.funnel.0", ""},
	{"$KV.millrace_checkpoints.layout", ""},
	{"$KV.millrace_backfill.crawler", ""},
	{"millrace.funnel.deltas", ""},
	{"analyse.items", ""},
	{"dlq.EVENTS.1", ""},
	{"work.q", ""},
	{"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.WORK.q", ""},
	{"_INBOX.someone.1", ""},
	{"$SYS.REQ.SERVER.PING.CONNZ", ""},
	{"anything", ""},
}

// following says which roles get what Millrace publishes on a subject, when they
// subscribe to it and to all around it.
var following = []struct{ subject, roles string }{
	{"millrace.funnel.deltas", "reader operator"},
	{"analyse.items", "analyser"},
	{"millrace.work.moves", ""},
	{"millrace.known", ""},
	{"millrace.processes", ""},
	{"events.crawled.00", ""},
	{"shards.register", ""},
	{"sources.SOURCE_CREATED", ""},
	{"dlq.EVENTS.1", ""},
	{"work.q", ""},
	{"$KV.millrace_checkpoints.funnel.0", ""},
	{"$JS.ACK.WORK.q.1.1.1.1.0", ""},
	{"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.WORK.q", ""},
	{"_INBOX.someone.1", ""},
	{"$JS.API.STREAM.PURGE.DLQ", ""},
}

// TestRoles tries every role against every subject, on the embedded server and
// on one of deploy/nats.conf.
func TestRoles(t *testing.T) {
	named := []string{
		stream.RoleProducer, stream.RoleSources, stream.RoleWorker, stream.RoleReader, stream.RoleOperator, stream.RoleAnalyser,
	}
	for _, c := range []struct {
		name  string
		start func(*testing.T) site
		roles []string
	}{
		{"embedded", embeddedSite, append(slices.Clone(named), stream.RoleLocal)},
		{"nats.conf", clusterSite, named},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, role := range c.roles {
				t.Run(role, func(t *testing.T) {
					// On a server of its own: what a worker is answered late, where it
					// may publish, is not to be taken for another role's.
					s := c.start(t)
					s.publishes(t, role)
					s.follows(t, role)
					s.reflects(t, role)
				})
			}
			s := c.start(t)
			s.inboxes(t, c.roles)
			s.everyone(t, slices.Contains(c.roles, stream.RoleLocal))
		})
	}
}

// watch returns on which of the subjects something reaches Millrace's account,
// since it began.
func (s site) watch(t *testing.T, subjects []string) (seen func() map[string]bool) {
	t.Helper()
	nc := s.connect(t, stream.RoleMillrace)
	subs := map[string]*nats.Subscription{}
	for _, subject := range subjects {
		sub, err := nc.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		subs[subject] = sub
	}
	flush(t, nc)
	return func() map[string]bool {
		t.Helper()
		flush(t, nc) // what was delivered before is here
		seen := map[string]bool{}
		for subject, sub := range subs {
			n, _, err := sub.Pending()
			if err != nil {
				t.Fatal(err)
			}
			seen[subject] = n > 0
		}
		return seen
	}
}

func flush(t *testing.T, nc *nats.Conn) {
	t.Helper()
	if err := nc.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func (s site) publishes(t *testing.T, role string) {
	subjects := make([]string, len(publishing))
	for i, p := range publishing {
		subjects[i] = p.subject
	}
	seen := s.watch(t, subjects)
	nc := s.connect(t, role)
	for _, p := range publishing {
		if err := nc.Publish(p.subject, []byte("{")); err != nil { // which no request is
			t.Fatal(err)
		}
	}
	flush(t, nc)
	reached := seen()
	for _, p := range publishing {
		want := slices.Contains(strings.Fields(p.roles), role)
		if reached[p.subject] != want && p.roles != taken {
			t.Errorf("%s published on %s: reached Millrace %v, want %v", role, p.subject, reached[p.subject], want)
		}
	}
}

func (s site) follows(t *testing.T, role string) {
	nc, millrace := s.connect(t, role), s.connect(t, stream.RoleMillrace)
	for _, f := range following {
		got := make(chan *nats.Msg, 16)
		for _, subject := range []string{f.subject, f.subject[:strings.IndexByte(f.subject, '.')+1] + ">", ">"} {
			if _, err := nc.ChanSubscribe(subject, got); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, nc)
		if err := millrace.Publish(f.subject, []byte("{")); err != nil {
			t.Fatal(err)
		}
		flush(t, millrace)
		flush(t, nc)
		if want := slices.Contains(strings.Fields(f.roles), role); (len(got) > 0) != want {
			t.Errorf("%s gets %d messages of %s, want any: %v", role, len(got), f.subject, want)
		}
		nc.Close()
		nc = s.connect(t, role)
	}
}

// protected are subjects on which Millrace alone speaks.
var protected = []string{
	"$KV.millrace_checkpoints.funnel.0", "dlq.EVENTS.7", "millrace.funnel.deltas", "millrace.work.moves", "work.q",
	"shards.register",
	"$JS.API.STREAM.PURGE.DLQ", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.WORK.q",
}

// reflects: who names a protected subject as the place for an answer does not
// get one there.
func (s site) reflects(t *testing.T, role string) {
	if role == stream.RoleOperator { // trusted with consumers, which deliver where their maker says
		return
	}
	if _, err := s.js.Publish(t.Context(), "work.q", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	seen := s.watch(t, protected)
	nc := s.connect(t, role)
	for _, p := range publishing {
		for _, reply := range protected {
			if err := nc.PublishRequest(p.subject, reply, []byte(`{"batch":1,"expires":1000000}`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	flush(t, nc)
	// What is stored after all of that is answered after all of it.
	if _, err := s.js.Publish(t.Context(), "events.crawled.00", nil); err != nil {
		t.Fatal(err)
	}
	reached := seen()
	for _, subject := range protected {
		sent := slices.ContainsFunc(publishing, func(p struct{ subject, roles string }) bool {
			return p.subject == subject && slices.Contains(strings.Fields(p.roles), role)
		})
		if reached[subject] && !sent {
			t.Errorf("%s had an answer written to %s", role, subject)
		}
	}
}

// inboxes: no role reads what another one is answered, nor what Millrace is.
func (s site) inboxes(t *testing.T, roles []string) {
	type spy struct {
		*nats.Conn
		answers chan *nats.Msg
	}
	spies := map[string]spy{}
	for _, role := range roles {
		spies[role] = spy{s.connect(t, role), make(chan *nats.Msg, 64)}
		if _, err := spies[role].ChanSubscribe("_INBOX.>", spies[role].answers); err != nil {
			t.Fatal(err)
		}
		flush(t, spies[role].Conn)
	}
	for _, asker := range append([]string{stream.RoleMillrace}, roles...) {
		if _, err := s.connect(t, asker).Request("$JS.API.INFO", nil, time.Minute); err != nil {
			t.Errorf("%s is not answered: %v", asker, err)
		}
		for role, spy := range spies {
			flush(t, spy.Conn)
			if len(spy.answers) > 0 && role != asker {
				t.Errorf("%s reads an answer to %s", role, asker)
			}
			for len(spy.answers) > 0 {
				<-spy.answers
			}
		}
	}
}

// everyone: each role can do its work, with stock clients.
func (s site) everyone(t *testing.T, local bool) {
	producers, workers := []string{stream.RoleProducer, stream.RoleOperator}, []string{stream.RoleWorker}
	if local {
		producers, workers = append(producers, stream.RoleLocal), append(workers, stream.RoleLocal)
	}
	for _, role := range producers {
		s.produces(t, role)
	}
	for _, role := range workers {
		s.works(t, role)
	}
	s.governs(t)
	s.reads(t)
	s.operates(t)
}

func (s site) jetStream(t *testing.T, role string) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(s.connect(t, role))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func (s site) produces(t *testing.T, role string) {
	js := s.jetStream(t, role)
	before := s.stored(t)
	for _, duplicate := range []bool{false, true} {
		ack, err := js.Publish(t.Context(), "events.crawled.00", []byte("{}"), jetstream.WithMsgID(role))
		if err != nil || ack.Duplicate != duplicate {
			t.Errorf("%s publishes: %+v, %v", role, ack, err)
		}
	}
	batch := make([]*nats.Msg, 1000)
	for i := range batch {
		batch[i] = &nats.Msg{Subject: "events.crawled.01", Data: []byte("{}"), Header: nats.Header{}}
	}
	if ack, err := jetstreamext.PublishMsgBatch(t.Context(), js, batch); err != nil || ack.BatchSize != 1000 {
		t.Errorf("%s publishes a batch: %+v, %v", role, ack, err)
	}
	if n := s.stored(t) - before; n != 1001 {
		t.Errorf("%s stored %d messages, want 1001", role, n)
	}
	events, err := s.js.Stream(t.Context(), stream.Events)
	if err != nil {
		t.Fatal(err)
	}
	m, err := events.GetLastMsgForSubject(t.Context(), "events.crawled.00")
	if err != nil || m.Header.Get("Nats-Request-Info") != "" || m.Header.Get(jetstream.MsgIDHeader) != role {
		t.Errorf("the message of %s is stored with headers %v, %v", role, m.Header, err)
	}
}

// governs: the role of sources publishes events about them, also in atomic batches.
func (s site) governs(t *testing.T) {
	js := s.jetStream(t, stream.RoleSources)
	if ack, err := js.Publish(t.Context(), "sources.SOURCE_CREATED", []byte("{}")); err != nil ||
		ack.Stream != stream.Sources {
		t.Errorf("%s publishes: %+v, %v", stream.RoleSources, ack, err)
	}
	batch := make([]*nats.Msg, 100)
	for i := range batch {
		batch[i] = &nats.Msg{Subject: "sources.SOURCE_UPDATED", Data: []byte("{}"), Header: nats.Header{}}
	}
	if ack, err := jetstreamext.PublishMsgBatch(t.Context(), js, batch); err != nil || ack.BatchSize != 100 {
		t.Errorf("%s publishes a batch: %+v, %v", stream.RoleSources, ack, err)
	}
}

func (s site) stored(t *testing.T) uint64 {
	t.Helper()
	events, err := s.js.Stream(t.Context(), stream.Events)
	if err != nil {
		t.Fatal(err)
	}
	return events.CachedInfo().State.Msgs
}

func (s site) works(t *testing.T, role string) {
	work, err := s.js.Stream(t.Context(), stream.Work)
	if err != nil {
		t.Fatal(err)
	}
	if err := work.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.js.Publish(t.Context(), "work.q", []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	consumer, err := s.jetStream(t, role).Consumer(t.Context(), stream.Work, "q")
	if err != nil {
		t.Fatalf("%s looks its queue up: %v", role, err)
	}
	batch, err := consumer.Fetch(3, jetstream.FetchMaxWait(time.Minute))
	if err != nil {
		t.Fatalf("%s pulls: %v", role, err)
	}
	n := 0
	for m := range batch.Messages() {
		n++
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Errorf("%s acknowledges: %v", role, err)
		}
	}
	if n != 3 || batch.Error() != nil {
		t.Errorf("%s got %d items, %v", role, n, batch.Error())
	}
	// The server confirms an acknowledgement before it removes the item.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		info, err := work.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s left %d items", role, info.State.Msgs)
		}
	}
}

func (s site) reads(t *testing.T) {
	js := s.jetStream(t, stream.RoleReader)
	msgs, err := jetstreamext.GetBatch(t.Context(), js, stream.Events, 500)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range msgs {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 500 {
		t.Errorf("the reader got %d messages, want 500", n)
	}
}

func (s site) operates(t *testing.T) {
	if _, err := s.js.Publish(t.Context(), "dlq.EVENTS.9", nil); err != nil {
		t.Fatal(err)
	}
	dlq, err := s.jetStream(t, stream.RoleOperator).Stream(t.Context(), stream.DLQ)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := dlq.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Next(jetstream.FetchMaxWait(time.Minute)); err != nil {
		t.Errorf("the operator reads no letter: %v", err)
	}
	if err := dlq.Purge(t.Context()); err != nil {
		t.Errorf("the operator purges: %v", err)
	}
}
