package stream_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestGet: a message that a copy of the stream lacks is found, and one that the stream lacks is not. The copy is a
// mirror from which the message was deleted: it answers for the stream as the copies in a cluster do.
func TestGet(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	st, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LED", Subjects: []string{"led"}, AllowDirect: true})
	must(err)
	mirror, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "COPY", AllowDirect: true, MirrorDirect: true, Mirror: &jetstream.StreamSource{Name: "LED"},
	})
	must(err)
	_, err = js.Publish(t.Context(), "led", []byte("here"))
	must(err)
	lacked, end := 0, time.Now().Add(time.Minute)
	for mirror.DeleteMsg(t.Context(), 1) != nil { // it is not there yet
		if time.Now().After(end) {
			t.Fatal("the copy does not follow")
		}
		time.Sleep(time.Millisecond)
	}
	for lacked < 10 {
		if _, err := st.GetMsg(t.Context(), 1); errors.Is(err, jetstream.ErrMsgNotFound) {
			lacked++
		}
		m, err := stream.Get(t.Context(), js, st, 1)
		must(err)
		if string(m.Data) != "here" || m.Subject != "led" || m.Sequence != 1 || m.Time.IsZero() {
			t.Fatalf("read %+v", m)
		}
		if _, err := stream.Get(t.Context(), js, st, 2); !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Fatalf("a message that is not there: %v", err)
		}
		if time.Now().After(end) {
			t.Fatal("the copy never answers")
		}
	}
}
