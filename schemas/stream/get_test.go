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

// TestGetKey: the newest value of a key is read, though a copy of the bucket has the one before it.
func TestGetKey(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "led", History: 5})
	must(err)
	mirror, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "COPY", AllowDirect: true, MirrorDirect: true, Mirror: &jetstream.StreamSource{Name: "KV_led"},
	})
	must(err)
	for _, value := range []string{"old", "new"} {
		_, err := kv.PutString(t.Context(), "k", value)
		must(err)
	}
	end := time.Now().Add(time.Minute)
	for mirror.DeleteMsg(t.Context(), 2) != nil { // it is not there yet
		if time.Now().After(end) {
			t.Fatal("the copy does not follow")
		}
		time.Sleep(time.Millisecond)
	}
	for old := 0; old < 10; {
		entry, err := kv.Get(t.Context(), "k")
		must(err)
		if string(entry.Value()) == "old" {
			old++
		}
		value, err := stream.GetKey(t.Context(), js, "led", "k")
		must(err)
		if string(value) != "new" {
			t.Fatalf("read %q", value)
		}
		if time.Now().After(end) {
			t.Fatal("the copy never answers")
		}
	}
	if _, err := stream.GetLast(t.Context(), js, "NONE", "k"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a stream that is not there: %v", err)
	}
	must(kv.Delete(t.Context(), "k"))
	for _, key := range []string{"k", "another"} {
		if _, err := stream.GetKey(t.Context(), js, "led", key); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
