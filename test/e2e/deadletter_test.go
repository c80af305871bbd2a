package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestDeadLetters holds the promise that what is published straight to NATS and
// breaks a rule is in the DLQ stream, once, with its reason; and that valid
// messages beside it count, with any message id or none.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := up(t)
	js, err := jetstream.New(s.nats())
	if err != nil {
		t.Fatal(err)
	}
	publish := func(subject, body, id string) {
		t.Helper()
		m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
		if id != "" {
			m.Header.Set(jetstream.MsgIDHeader, id)
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	home := subjectOf("https://example.com/article-123")
	want := map[string]string{} // body → code
	for name, bad := range badEvents() {
		publish(home, bad[0], "bad "+name)
		want[bad[0]] = bad[2]
	}
	event := valid(nil)
	publish(home, event, "")
	publish(home, event, "an id of its own")
	publish(home, event, "and another")
	elsewhere := valid(map[string]any{"service_name": "lost"})
	publish("events.published.00", elsewhere, "")
	want[elsewhere] = "" // whatever the code, it is not in its place

	last := s.caughtUp()
	if last != uint64(len(want)+3) {
		t.Errorf("the stream has %d messages, want %d", last, len(want)+3)
	}
	if f := get[funnel](s, "/funnel", "period=24h"); f.Stages[0].Events != 1 || f.Stages[0].Uniques != 1 {
		t.Errorf("counted: %v, want the one valid event", f.Stages)
	}
	mustBeDead(t, js, want)

	s.killParent()
	s.restart()
	s.caughtUp()
	if js, err = jetstream.New(s.nats()); err != nil {
		t.Fatal(err)
	}
	mustBeDead(t, js, want)
}

func subjectOf(url string) string {
	hash := sha256.Sum256([]byte(url))
	return "events.crawled." + hex.EncodeToString(hash[:1])
}

// mustBeDead compares the DLQ stream with the codes that are wanted by body.
func mustBeDead(t testing.TB, js jetstream.JetStream, want map[string]string) {
	t.Helper()
	info, err := js.Stream(t.Context(), "DLQ")
	if err != nil {
		t.Fatal(err)
	}
	state := info.CachedInfo().State
	if int(state.Msgs) != len(want) {
		t.Errorf("the DLQ has %d messages, want %d", state.Msgs, len(want))
	}
	seen := map[string]bool{}
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := info.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		code, known := want[string(m.Data)]
		if !known || seen[string(m.Data)] {
			t.Errorf("unexpected, or there twice: %.200s", m.Data)
		}
		seen[string(m.Data)] = true
		if got := m.Header.Get("Millrace-Code"); code != "" && got != code {
			t.Errorf("code %q, want %q: %.200s", got, code, m.Data)
		}
		for _, name := range []string{"Code", "Reason", "Subject", "Stream", "Seq", "Time"} {
			if m.Header.Get("Millrace-"+name) == "" {
				t.Errorf("no Millrace-%s: %s", name, fmt.Sprint(m.Header))
			}
		}
	}
}
