package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/object"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestPut: an object is made once, is what the client of NATS reads, and is not overwritten.
func TestPut(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	storage, ctx := NewNATS(js, 1), t.Context()
	put := func(key string, content []byte) (Stored, error) {
		return storage.Put(ctx, crawled(key), bytes.NewReader(content))
	}
	large := noise(3 << 20)
	for key, content := range map[string][]byte{
		"tiktok/a.json": []byte("[1]"), "nothing": {}, "large": large, "ключ": []byte("[2]"), "chunk": noise(chunkSize),
	} {
		for i := range 2 {
			stored, err := put(key, content)
			if err != nil || stored.Made != (i == 0) || stored.Size != int64(len(content)) {
				t.Errorf("%s, time %d: %+v, %v", key, i, stored, err)
			}
		}
		if _, err := put(key, []byte("other")); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: other content: %v", key, err)
		}
		if got, _, err := Read(ctx, storage, crawled(key)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: read %d bytes, %v", key, len(got), err)
		}
		client, err := js.ObjectStore(ctx, "crawls")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := client.GetBytes(ctx, key); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: the client reads %d bytes, %v", key, len(got), err)
		}
	}
	client, err := js.ObjectStore(ctx, "crawls")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(ctx, "large"); err != nil {
		t.Fatal(err)
	}
	if stored, err := put("large", []byte("again")); err != nil || !stored.Made {
		t.Errorf("after it was deleted: %+v, %v", stored, err)
	}
	for what, err := range map[string]error{
		"too large": second(put("huge", make([]byte, MaxSize+1))),
		"dots":      second(storage.Put(ctx, object.Name{Bucket: "a.b", Key: "k"}, strings.NewReader(""))),
		"cut":       second(storage.Put(ctx, crawled("cut"), io.MultiReader(bytes.NewReader(large), broken{}))),
	} {
		want := map[string]error{"too large": ErrTooLarge, "dots": ErrBucketName, "cut": errBroken}[what]
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// What was refused, and what was there already, has left nothing behind.
	if chunks, want := chunksOf(t, js), 4; chunks != want {
		t.Errorf("%d chunks, want %d", chunks, want)
	}
}

func second(_ Stored, err error) error { return err }

var errBroken = errors.New("the caller has gone")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

// chunksOf counts the contents in the bucket.
func chunksOf(t *testing.T, js jetstream.JetStream) (contents int) {
	t.Helper()
	bucket, err := js.Stream(t.Context(), "OBJ_crawls")
	if err != nil {
		t.Fatal(err)
	}
	info, err := bucket.Info(t.Context(), jetstream.WithSubjectFilter("$O.crawls.C.*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(info.State.Subjects)
}

// TestPutAtOnce: of several callers with different contents one makes the object, and the
// others are told; with the same content, all have it.
func TestPutAtOnce(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	for round := range 10 {
		key := fmt.Sprint("k", round)
		results := make([]error, 6)
		made := make([]bool, len(results))
		content := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i%3)}, chunkSize+1) }
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() {
				stored, err := NewNATS(js, 1).Put(context.Background(), crawled(key), bytes.NewReader(content(i)))
				results[i], made[i] = err, stored.Made
			})
		}
		all.Wait()
		winner := slices.Index(made, true)
		if winner < 0 || slices.Contains(made[winner+1:], true) {
			t.Fatalf("made: %v, %v", made, results)
		}
		for i, err := range results {
			if same := i%3 == winner%3; same != (err == nil) || !same && !errors.Is(err, ErrConflict) {
				t.Errorf("%d beside the winner %d: %v", i, winner, err)
			}
		}
		got, _, err := Read(t.Context(), NewNATS(js, 1), crawled(key))
		if err != nil || !bytes.Equal(got, content(winner)) {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
	}
	if chunks := chunksOf(t, js); chunks != 10 {
		t.Errorf("%d contents are stored, want 10", chunks)
	}
}

// TestMaxBuckets: an object makes no bucket beyond as many as there may be.
func TestMaxBuckets(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	storage := NewNATS(js, 1)
	put := func(bucket int) error {
		_, err := storage.Put(t.Context(), object.Name{Bucket: fmt.Sprint("b", bucket), Key: "k"},
			strings.NewReader("[1]"))
		return err
	}
	var all sync.WaitGroup
	refused := make([]error, MaxBuckets+5)
	for i := range refused {
		all.Go(func() { refused[i] = put(i) })
	}
	all.Wait()
	n := 0
	for i, err := range refused {
		if err != nil {
			n++
		}
		if err != nil && !errors.Is(err, ErrTooManyBuckets) {
			t.Errorf("bucket %d: %v", i, err)
		}
		if again := put(i); (again == nil) != (err == nil) {
			t.Errorf("bucket %d again: %v, and %v before", i, again, err)
		}
	}
	if n != 5 {
		t.Errorf("%d buckets are refused, want 5", n)
	}
}

// TestPutAs: a caller may choose the bound and the id of the chunks, and delete both an object and what is
// left of one that did not come to its end.
func TestPutAs(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	storage, ctx := NewNATS(js, 1), t.Context()
	o := object.Name{Bucket: "_own", Key: "k"}
	if err := o.Check(); err == nil {
		t.Error("a request can name the bucket")
	}
	if err := storage.Discard(ctx, o, "id"); err != nil {
		t.Errorf("without a bucket: %v", err)
	}
	if _, err := storage.PutAs(ctx, o, "id", 10, strings.NewReader("more than ten")); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if stored, err := storage.PutAs(ctx, o, "id", 10, strings.NewReader("just ten..")); err != nil || stored.Size != 10 {
		t.Error(stored, err)
	}
	if _, err := js.Publish(ctx, "$O._own.C.other", []byte("chunk")); err != nil {
		t.Fatal(err)
	}
	for key, id := range map[string]string{"never": "other", "k": "id"} {
		if err := storage.Discard(ctx, object.Name{Bucket: o.Bucket, Key: key}, id); err != nil {
			t.Fatal(err)
		}
	}
	bucket, err := js.Stream(ctx, "OBJ__own")
	if err != nil {
		t.Fatal(err)
	}
	if n := bucket.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// TestDiscardInSteps: a large object is deleted some chunks at a time, by which others are asked for meanwhile, and nothing of
// another object is.
func TestDiscardInSteps(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	storage, ctx := NewNATS(js, 1), t.Context()
	o := object.Name{Bucket: "_own", Key: "k"}
	if _, err := storage.PutAs(ctx, o, "id", 10, strings.NewReader("ten bytes.")); err != nil {
		t.Fatal(err)
	}
	const chunks = 3 * purgeStep
	for range chunks {
		for _, id := range []string{"id", "other"} {
			if _, err := js.Publish(ctx, "$O._own.C."+id, []byte("chunk")); err != nil {
				t.Fatal(err)
			}
		}
	}
	bucket, err := js.Stream(ctx, "OBJ__own")
	if err != nil {
		t.Fatal(err)
	}
	asked, err := js.Conn().SubscribeSync("$JS.API.STREAM.PURGE.OBJ__own")
	if err != nil {
		t.Fatal(err)
	}
	if err := storage.Discard(ctx, o, "id"); err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := asked.Pending(); err != nil || n < chunks/purgeStep {
		t.Errorf("%d requests delete %d chunks, %v", n, chunks, err)
	}
	info, err := bucket.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	if left := info.State.Subjects; len(left) != 1 || left["$O._own.C.other"] != chunks {
		t.Errorf("left: %v", left)
	}
}
