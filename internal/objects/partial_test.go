package objects

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/object"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestAppend: an object comes in parts from several writers, of which each goes on behind the last part or
// learns that there is more. It is what was sent, and is made once.
func TestAppend(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	storage, ctx := NewNATS(js, 1), t.Context()
	o, content := object.Name{Bucket: "_own", Key: "k"}, noise(5*chunkSize+77)
	var all sync.WaitGroup
	for writer := range 4 {
		all.Go(func() {
			for {
				part, err := storage.Partial(ctx, o, "id")
				if err != nil {
					t.Error(err)
					return
				}
				next := min(part.Size+int64(100_000*(writer+1)), int64(len(content)))
				if part.Size == next {
					return
				}
				begun := part.Size
				err = storage.Append(ctx, o, "id", int64(len(content)), part, bytes.NewReader(content[begun:next]))
				if err != nil && !errors.Is(err, ErrMoved) || err == nil && part.Size != next {
					t.Error(part.Size, next, err)
					return
				}
			}
		})
	}
	all.Wait()
	part, err := storage.Partial(ctx, o, "id")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if stored, err := storage.Finish(ctx, o, "id", part); err != nil || !stored.Made || stored.Size != int64(len(content)) {
			t.Error(stored, err)
		}
	}
	opened, err := storage.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(opened); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes are read, %v", len(got), err)
	}
	if err := storage.Append(ctx, o, "id", part.Size, part, bytes.NewReader([]byte("x"))); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	part.chunks = MaxShort + 5
	if err := storage.Append(ctx, o, "id", part.Size+1, part, bytes.NewReader([]byte("x"))); !errors.Is(err, ErrTooManyParts) {
		t.Error(err)
	}
	if err := storage.Discard(ctx, o, "id"); err != nil {
		t.Fatal(err)
	}
	part.chunks = 1
	if err := storage.Append(ctx, o, "id", part.Size+1, part, bytes.NewReader([]byte("x"))); !errors.Is(err, ErrMoved) {
		t.Error("after it was discarded:", err)
	}
	if part, err := storage.Partial(ctx, o, "id"); err != nil || part.Size != 0 || part.last != 0 {
		t.Error(part, err)
	}
	if _, err := js.Publish(ctx, "$O._own.C.other", []byte("no header")); err != nil {
		t.Fatal(err)
	}
	if part, err := storage.Partial(ctx, o, "other"); !errors.Is(err, ErrDamaged) {
		t.Error(part, err)
	}
}
