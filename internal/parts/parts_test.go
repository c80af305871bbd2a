package parts_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/parts"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestValues: values of any size come back as they were, one message after the other, and
// parts without the others are an error and no value.
func TestValues(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	js := srv.JetStream()
	rng := rand.New(rand.NewPCG(1, 1))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	values := [][]byte{{}, []byte("a"), random(3 << 20), bytes.Repeat([]byte("same"), 5<<20), random(600 << 10), random(7)}
	cut := make([]parts.Value, len(values))
	for i, v := range values {
		var err error
		if cut[i], err = parts.Cut(js, stream.BatchesReadSubject, v); err != nil {
			t.Fatal(err)
		}
	}
	// One by itself, and the others together.
	for _, some := range [][]parts.Value{cut[:1], cut[1:]} {
		if err := parts.Publish(t.Context(), js, some...); err != nil {
			t.Fatal(err)
		}
	}
	s, err := js.Stream(t.Context(), stream.BatchesRead)
	if err != nil {
		t.Fatal(err)
	}
	var all []*jetstream.RawStreamMsg
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	if len(all) < len(values)+5 {
		t.Fatalf("%d values have %d messages", len(values), len(all))
	}
	var j parts.Joiner
	var got [][]byte
	for _, m := range all {
		v, err := j.Take(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if v != nil {
			got = append(got, v)
		}
		if j.Whole() != (v != nil) {
			t.Fatal("a value is under way, or none")
		}
	}
	if len(got) != len(values) {
		t.Fatalf("%d values came back of %d", len(got), len(values))
	}
	for i := range got {
		if !bytes.Equal(got[i], values[i]) {
			t.Errorf("value %d came back as another one", i)
		}
	}
	// One message is gone: its value is none, and all others are.
	for gone := range all {
		var j parts.Joiner
		n := 0
		for i, m := range all {
			if i == gone {
				continue
			}
			if v, _ := j.Take(m.Data); v != nil {
				if n++; !bytes.Equal(v, values[0]) && !bytes.Equal(v, values[1]) && len(v) < 7 {
					t.Fatalf("without message %d there is a value of %d bytes", gone, len(v))
				}
			}
		}
		if n != len(values)-1 {
			t.Errorf("without message %d there are %d values, want %d", gone, n, len(values)-1)
		}
	}
}

// TestManyValues: more values than the server takes at once are all published, in their order,
// and so is nothing.
func TestManyValues(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	js := srv.JetStream()
	const n = parts.MaxParts + 10
	values := make([]parts.Value, n)
	for i := range values {
		var err error
		if values[i], err = parts.Cut(js, stream.BatchesReadSubject, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := parts.Publish(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if err := parts.Publish(t.Context(), js, values...); err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), stream.BatchesRead)
	if err != nil {
		t.Fatal(err)
	}
	if last := s.CachedInfo().State.LastSeq; last != n {
		t.Fatalf("%d values have %d messages", n, last)
	}
	for _, i := range []int{0, parts.MaxParts - 1, parts.MaxParts, n - 1} {
		m, err := s.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		var j parts.Joiner
		if got, err := j.Take(m.Data); err != nil || string(got) != fmt.Sprint(i) {
			t.Errorf("message %d carries %q: %v", i+1, got, err)
		}
	}
}

// FuzzTake: whatever anyone publishes, the next value is whole.
func FuzzTake(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0x28, 0xb5, 0x2f, 0xfd}, []byte{0, 1, 0, 2, 7})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var j parts.Joiner
		_, _ = j.Take(a)
		_, _ = j.Take(b)
		if j.Whole() && len(b) > 4 && b[0] == 0 && b[1] == 0 && b[2] == 0 && b[3] > 1 {
			t.Error("the first of several parts completes a value")
		}
	})
}
