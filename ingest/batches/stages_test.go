package batches

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
	"github.com/millrace-io/millrace/schemas/object"
)

// counting is a storage that counts how often each object was opened.
type counting struct {
	objects.Storage
	mu     sync.Mutex
	opened map[string]int
}

func (c *counting) Open(ctx context.Context, o object.Name) (objects.Object, error) {
	c.mu.Lock()
	c.opened[o.Key]++
	c.mu.Unlock()
	return c.Storage.Open(ctx, o)
}

// reread tells whether n objects were opened twice or more.
func (c *counting) reread(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.opened {
		if times >= 2 {
			n--
		}
	}
	return n <= 0
}

// limit bounds the messages that the stream of what was read takes, in bytes; -1: it takes all.
func (r *room) limit(bytes int32) {
	r.Helper()
	st, err := r.js.Stream(r.Context(), stream.BatchesRead)
	if err != nil {
		r.Fatal(err)
	}
	cfg := st.CachedInfo().Config
	cfg.MaxMsgSize = bytes
	if _, err := r.js.UpdateStream(r.Context(), cfg); err != nil {
		r.Fatal(err)
	}
}

// TestPublicationFails: what cannot be published stays announced, is read again, and is published
// once when the stream takes it (invariant 1).
func TestPublicationFails(t *testing.T) {
	const n = 20
	r := newRoom(t)
	storage := &counting{Storage: r.stored, opened: map[string]int{}}
	r.storage = storage
	for i := range n {
		key := fmt.Sprintf("%d.json", i)
		r.put("crawl", key, []byte(`[{"content_id":"1","fetch_status":"success"}]`))
		r.publish(event("crawl/"+key, "p-b-0", i))
	}
	r.limit(1)
	stop := r.run()
	defer stop()
	for end := time.Now().Add(patience); !storage.reread(n); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not all objects are read again")
		}
	}
	r.left(n)
	if all := r.read(); len(all) != 0 {
		t.Fatalf("%d batches were published on a stream that takes none", len(all))
	}
	r.limit(-1)
	r.left(0)
	times := map[schema.ID]int{}
	for _, one := range r.read() {
		times[one.About.Batch]++
	}
	for i := range int32(n) {
		if id := (schema.ID{Job: "p-b-0", Index: i}); times[id] != 1 {
			t.Errorf("batch %d was published %d times", i, times[id])
		}
	}
	if letters := r.letters(); len(letters) != 0 {
		t.Errorf("dead letters %v", letters)
	}
}
