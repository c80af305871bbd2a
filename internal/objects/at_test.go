package objects

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/object"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestAt: any bytes of an object that came in parts of any size, between those of others, are read as they are; and of one
// that lacks a part it is said.
func TestAt(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	storage, ctx := NewNATS(js, 1), t.Context()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	o, other := object.Name{Bucket: "_own", Key: "k"}, object.Name{Bucket: "_own", Key: "other"}
	content := noise(7*chunkSize + 77)
	part, beside := newPartial(), newPartial()
	for part.Size < int64(len(content)) {
		to := min(part.Size+r.Int64N(2*chunkSize)+1, int64(len(content)))
		if err := storage.Append(ctx, o, "id", 1<<30, part, bytes.NewReader(content[part.Size:to])); err != nil {
			t.Fatal(err)
		}
		for range r.IntN(20) {
			if err := storage.Append(ctx, other, "other", 1<<30, beside, bytes.NewReader([]byte("x"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := storage.Finish(ctx, o, "id", part); err != nil {
		t.Fatal(err)
	}
	at, err := storage.At(ctx, o)
	if err != nil || at.Size() != int64(len(content)) {
		t.Fatal(at, err)
	}
	for range 100 {
		from := r.IntN(len(content))
		to := min(from+r.IntN(chunkSize), len(content))
		got := make([]byte, to-from)
		if n, err := at.ReadAt(got, int64(from)); n != to-from || err != nil || !bytes.Equal(got, content[from:to]) {
			t.Fatalf("seed %d: bytes %d to %d: %d are read, %v", seed, from, to, n, err)
		}
	}
	if n, err := at.ReadAt(make([]byte, 100), int64(len(content))-10); n != 10 || !errors.Is(err, io.EOF) {
		t.Error("behind the end:", n, err)
	}
	if all, err := io.ReadAll(io.NewSectionReader(at, 0, at.Size())); err != nil || !bytes.Equal(all, content) {
		t.Errorf("%d bytes are read, %v", len(all), err)
	}

	if _, err := storage.At(ctx, other); !errors.Is(err, ErrMissing) {
		t.Error("one that is not whole:", err)
	}
	bucket, err := js.Stream(ctx, "OBJ__own")
	if err != nil {
		t.Fatal(err)
	}
	middle, err := at.find(3 * chunkSize)
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.DeleteMsg(ctx, middle.seq); err != nil {
		t.Fatal(err)
	}
	if at, err = storage.At(ctx, o); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(io.NewSectionReader(at, 0, at.Size())); !errors.Is(err, ErrDamaged) {
		t.Error("one that lacks a part is read on:", err)
	}
	if _, err := at.ReadAt(make([]byte, 1), 3*chunkSize); !errors.Is(err, ErrDamaged) {
		t.Error("what it lacks is read:", err)
	}
	if err := storage.Discard(ctx, o, "id"); err != nil {
		t.Fatal(err)
	}
	if _, err := at.ReadAt(make([]byte, 1), 5*chunkSize); !errors.Is(err, ErrMissing) {
		t.Error("one that is gone is read:", err)
	}
}
