package backup_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/backup"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/slowtest"
)

// slow takes longer for one write than the server waits for an acknowledgement.
type slow struct {
	bytes.Buffer
	slept bool
}

func (s *slow) Write(p []byte) (int, error) {
	if !s.slept {
		s.slept = true
		time.Sleep(7 * time.Second)
	}
	return s.Buffer.Write(p)
}

// TestSlowTarget: a place that takes long for a part of a stream, as S3 does, gets all of the stream.
func TestSlowTarget(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	ctx := t.Context()
	here := embeddedtest.Connect(t, embeddedtest.NATS(t))
	js, err := jetstream.New(here)
	must(t, err)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "A", Subjects: []string{"a"}})
	must(t, err)
	part := make([]byte, 512<<10)
	for range 48 { // more than the server sends ahead
		_, _ = rand.Read(part) // the server compresses
		_, err := js.Publish(ctx, "a", part)
		must(t, err)
	}
	c, err := backup.BeginCopy(ctx, here, "A")
	must(t, err)
	var copied slow
	must(t, c.WriteTo(ctx, &copied))
	there := embeddedtest.Connect(t, embeddedtest.NATS(t))
	must(t, backup.RestoreStream(ctx, there, c.StreamInfo, 1, &copied))
	other, err := jetstream.New(there)
	must(t, err)
	st, err := other.Stream(ctx, "A")
	must(t, err)
	if n := st.CachedInfo().State.Msgs; n != 48 {
		t.Errorf("the copy has %d messages, want 48", n)
	}
}

// TestCopy: a stream, a bucket and a consumer are the same on another server: sequences, times, headers and what is
// gone. A damaged copy is refused.
func TestCopy(t *testing.T) {
	ctx := t.Context()
	here := embeddedtest.Connect(t, embeddedtest.NATS(t))
	js, err := jetstream.New(here)
	must(t, err)
	st, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "A", Subjects: []string{"a.>"}, AllowAtomicPublish: true})
	must(t, err)
	large := bytes.Repeat([]byte("0123456789"), 100_000)
	for i := range 30 {
		_, err := js.Publish(ctx, fmt.Sprint("a.", i), large[:i*30_000], jetstream.WithMsgID(fmt.Sprint("id-", i)))
		must(t, err)
	}
	for _, gone := range []uint64{1, 2, 7, 30} {
		must(t, st.DeleteMsg(ctx, gone))
	}
	consumer, err := st.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	must(t, err)
	batch, err := consumer.Fetch(3)
	must(t, err)
	for m := range batch.Messages() {
		must(t, m.DoubleAck(ctx))
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "b", History: 3})
	must(t, err)
	_, err = kv.PutString(ctx, "key", "value")
	must(t, err)

	there := embeddedtest.Connect(t, embeddedtest.NATS(t))
	names, err := backup.StreamNames(ctx, here)
	must(t, err)
	if len(names) != 2 {
		t.Fatalf("streams %v", names)
	}
	for _, name := range names {
		c, err := backup.BeginCopy(ctx, here, name)
		must(t, err)
		var copied bytes.Buffer
		must(t, c.WriteTo(ctx, &copied))
		half := bytes.NewReader(copied.Bytes()[:copied.Len()/2])
		if err := backup.RestoreStream(ctx, there, c.StreamInfo, 1, half); err == nil {
			t.Errorf("half of stream %s is restored", name)
		}
		other, err := jetstream.New(there)
		must(t, err)
		_ = other.DeleteStream(ctx, name) // what the server has left of it
		must(t, backup.RestoreStream(ctx, there, c.StreamInfo, 1, &copied))
		if err := backup.RestoreStream(ctx, there, c.StreamInfo, 1, strings.NewReader("")); err == nil {
			t.Errorf("stream %s is restored over itself", name)
		}
	}
	other, err := jetstream.New(there)
	must(t, err)
	again, err := other.Stream(ctx, "A")
	must(t, err)
	before, err := st.Info(ctx)
	must(t, err)
	if got, want := again.CachedInfo().State, before.State; got.FirstSeq != want.FirstSeq || got.LastSeq != want.LastSeq ||
		got.Msgs != want.Msgs {
		t.Errorf("the copy has %+v, want %+v", got, want)
	}
	for seq := uint64(3); seq < 30; seq++ {
		want, wantErr := st.GetMsg(ctx, seq)
		got, err := again.GetMsg(ctx, seq)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("message %d: %v, want %v", seq, err, wantErr)
		}
		if err == nil && (!got.Time.Equal(want.Time) || !bytes.Equal(got.Data, want.Data) ||
			got.Header.Get("Nats-Msg-Id") != want.Header.Get("Nats-Msg-Id") || got.Subject != want.Subject) {
			t.Errorf("message %d is another one", seq)
		}
	}
	c, err := again.Consumer(ctx, "c")
	must(t, err)
	if got := c.CachedInfo().AckFloor.Consumer; got != 3 {
		t.Errorf("the consumer has %d acknowledgements, want 3", got)
	}
	bucket, err := other.KeyValue(ctx, "b")
	must(t, err)
	if e, err := bucket.Get(ctx, "key"); err != nil || string(e.Value()) != "value" {
		t.Errorf("the bucket has %v, %v", e, err)
	}
}
