package dlq

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

type fixture struct {
	*Service
	t    testing.TB
	nats *natstest.Server
	js   jetstream.JetStream
}

func start(t testing.TB) fixture {
	t.Helper()
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{t: t, nats: natstest.Start(t, stream.Config{})}
	f.js = f.nats.JetStream()
	if f.Service, err = New(Config{Stages: stages}, f.nats.Connect(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return f
}

// dead is a letter to be; zero fields have the defaults of put.
type dead struct {
	stream, subject, code, field string
	seq                          uint64
	at                           time.Time
	body                         string
	cut                          int
	replayID                     string // of releases that gave none: empty
}

// put makes a letter, as the projector does.
func (f fixture) put(d dead) uint64 {
	f.t.Helper()
	if d.stream == "" {
		d.stream = stream.Events
	}
	if d.at.IsZero() {
		d.at = time.Now()
	}
	m := nats.NewMsg(stream.DeadLetterSubject(d.stream, d.seq))
	m.Data = []byte(d.body)
	for name, value := range map[string]string{
		stream.HeaderReason: "must be better", stream.HeaderCode: d.code, stream.HeaderField: d.field,
		stream.HeaderSubject: d.subject,
		stream.HeaderStream:  d.stream, stream.HeaderSeq: strconv.FormatUint(d.seq, 10),
		stream.HeaderTime: d.at.UTC().Format(time.RFC3339Nano),
	} {
		m.Header.Set(name, value)
	}
	if d.replayID != "" {
		m.Header.Set(stream.HeaderReplayID, d.replayID)
	}
	if d.cut != 0 {
		m.Header.Set(stream.HeaderCut, strconv.Itoa(d.cut))
	}
	ack, err := f.js.PublishMsg(f.t.Context(), m, jetstream.WithExpectLastSequencePerSubject(0))
	if err != nil {
		f.t.Fatal(err)
	}
	return ack.Sequence
}

// refuse publishes a message on the event stream, with the id that the client
// gives it, and makes it a letter.
func (f fixture) refuse(subject, code, body string) (id, seq uint64) {
	f.t.Helper()
	var r event.Record
	var options []jetstream.PublishOpt
	if event.Decode([]byte(body), &r) == nil {
		options = append(options, jetstream.WithMsgID(r.MessageID()))
	}
	ack, err := f.js.Publish(f.t.Context(), subject, []byte(body), options...)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.put(dead{subject: subject, code: code, field: "subject", seq: ack.Sequence, body: body}), ack.Sequence
}

// eventText is a valid event of so long ago.
func eventText(n int, stage string, ago time.Duration, metadata string) string {
	return fmt.Sprintf(`{"article_url":"https://example.com/%d","source_name":"s","stage":%q,"occurred_at":%q,`+
		`"service_name":"crawler","metadata":%s,"new":{"a<b":1e400}}`,
		n, stage, time.Now().Add(-ago).UTC().Format(time.RFC3339Nano), metadata)
}

func rightSubject(n int, stage string) string {
	return stream.EventSubject(stage, sha256.Sum256(fmt.Appendf(nil, "https://example.com/%d", n)))
}

// stored returns the messages of the event stream on a subject.
func (f fixture) stored(subject string) []*jetstream.RawStreamMsg {
	f.t.Helper()
	st, err := f.js.Stream(f.t.Context(), stream.Events)
	if err != nil {
		f.t.Fatal(err)
	}
	var all []*jetstream.RawStreamMsg
	for seq := uint64(1); seq <= st.CachedInfo().State.LastSeq; seq++ {
		m, err := st.GetMsg(f.t.Context(), seq)
		if err != nil {
			f.t.Fatal(err)
		}
		if matchSubject(subject, m.Subject) {
			all = append(all, m)
		}
	}
	return all
}

func (f fixture) letters() int {
	f.t.Helper()
	st, err := f.js.Stream(f.t.Context(), stream.DLQ)
	if err != nil {
		f.t.Fatal(err)
	}
	return int(st.CachedInfo().State.Msgs)
}

func (f fixture) replay(sel Selection, o ReplayOptions) LetterReport {
	f.t.Helper()
	r, err := f.Replay(f.t.Context(), sel, o)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f fixture) purge(sel Selection, dryRun bool) LetterReport {
	f.t.Helper()
	r, err := f.Purge(f.t.Context(), sel, dryRun)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// tally is a report in short.
func tally(r LetterReport) string {
	var codes []string
	for _, k := range r.Letters {
		codes = append(codes, k.Code)
	}
	return fmt.Sprintf("matched %d replayed %d (%d) kept %d deleted %d %s", r.Matched, r.Replayed, r.Duplicates, r.Kept,
		r.Deleted, strings.Join(codes, " "))
}

func (f fixture) want(r LetterReport, want string) {
	f.t.Helper()
	if got := strings.TrimSpace(tally(r)); got != want {
		f.t.Errorf("%s\nwant %s\n%+v", got, want, r)
	}
}
