package objects

import (
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/object"
	"github.com/millrace-io/millrace/schemas/stream"
)

func large(key string) object.Name { return object.Name{Bucket: "_exports_packed", Key: key} }

// heap notes the most that is in use while a content is read.
type heap struct {
	from       io.Reader
	read, seen int
	most       uint64
}

// Read implements io.Reader.
func (h *heap) Read(p []byte) (int, error) {
	n, err := h.from.Read(p)
	const every = 8 << 20
	if h.read += n; h.read/every > h.seen {
		h.seen = h.read / every
		h.most = max(h.most, inUse())
	}
	return n, err
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestPutMemory: a server in this process holds little of what is put into a bucket of objects that are compressed.
func TestPutMemory(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	storage := NewNATS(js, 1)
	if _, err := storage.Put(t.Context(), large("warm"), io.LimitReader(rand.NewChaCha8([32]byte{1}), 1<<20)); err != nil {
		t.Fatal(err)
	}
	const size = 128 << 20
	before, h := inUse(), &heap{from: io.LimitReader(rand.NewChaCha8([32]byte{2}), size)}
	stored, err := storage.PutAs(t.Context(), large("large"), "large", size, h)
	if err != nil || stored.Size != size {
		t.Fatalf("%+v, %v", stored, err)
	}
	grown := int64(h.most - before)
	t.Logf("%d MiB at most while 128 MiB are put", grown>>20)
	if grown > 32<<20 {
		t.Errorf("the process holds %d MiB of 128", grown>>20)
	}
}
