package objects

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/object"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestNATS reads from the real Object Store: several chunks, links, and what is not there.
func TestNATS(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	ctx := t.Context()
	bucket := func(name string) jetstream.ObjectStore {
		b, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	crawls, other := bucket("crawls"), bucket("other")
	large := noise(3 << 20)
	for key, content := range map[string][]byte{
		"tiktok/a.json": []byte("[1]"), "nothing": nil, "large": large, "ключ": []byte("[2]"), "gone": []byte("[3]"),
	} {
		if _, err := crawls.PutBytes(ctx, key, content); err != nil {
			t.Fatal(err)
		}
	}
	secret, err := other.PutBytes(ctx, "secret", []byte("[4]"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = crawls.AddLink(ctx, "link", secret)
	_, err2 := crawls.AddBucketLink(ctx, "bucketlink", other)
	if err := errors.Join(err, err2, crawls.Delete(ctx, "gone")); err != nil {
		t.Fatal(err)
	}
	storage := NewNATS(js, 1)
	for o, want := range map[object.Name]string{
		crawled("tiktok/a.json"): "[1]", crawled("nothing"): "", crawled("large"): string(large), crawled("ключ"): "[2]",
	} {
		if got, _, err := Read(ctx, storage, o); err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v", o, len(got), err)
		}
	}
	for _, o := range []object.Name{
		crawled("none"), crawled("gone"), crawled("link"), crawled("bucketlink"), crawled("link/a"),
		{Bucket: "none", Key: "a"},
		{Bucket: "with.dots", Key: "a"},
		{Bucket: "crawls", Key: "../other/secret"},
	} {
		if got, _, err := Read(ctx, storage, o); !errors.Is(err, ErrMissing) || got != nil {
			t.Errorf("%s: %q, %v", o, got, err)
		}
	}
}

// TestNATSReplaced: of an object that is replaced between looking and reading the chunks are
// gone. Reading it ends soon, and says so.
func TestNATSReplaced(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	crawls, err := js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "crawls"})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(context.Context) error{
		"replaced": func(ctx context.Context) error {
			_, err := crawls.PutBytes(ctx, "k", noise(2<<20))
			return err
		},
		"deleted": func(ctx context.Context) error { return crawls.Delete(ctx, "k") },
	} {
		if _, err := crawls.PutBytes(t.Context(), "k", noise(4<<20)); err != nil {
			t.Fatal(err)
		}
		s := &changing{Storage: NewNATS(js, 1), change: change}
		if got, _, err := read(t.Context(), s, crawled("k"), Stall/10); !errors.Is(err, ErrChanged) || got != nil {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// changing is a storage in which an object changes when it has been opened.
type changing struct {
	Storage
	change func(context.Context) error
}

func (c *changing) Open(ctx context.Context, o object.Name) (Object, error) {
	opened, err := c.Storage.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return opened, c.change(ctx)
}

// TestNATSDamaged: an object whose digest is not that of its chunks is damaged, and one whose
// chunks are gone is given up.
func TestNATSDamaged(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	ctx := t.Context()
	crawls, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "crawls"})
	if err != nil {
		t.Fatal(err)
	}
	info, err := crawls.PutBytes(ctx, "k", []byte("[1]"))
	if err != nil {
		t.Fatal(err)
	}
	lie := *info
	lie.Digest = "SHA-256=" + strings.Repeat("A", 43) + "="
	text, err := json.Marshal(lie)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.Stream(ctx, "OBJ_crawls")
	if err != nil {
		t.Fatal(err)
	}
	described, err := bucket.GetMsg(ctx, bucket.CachedInfo().State.LastSeq)
	if err != nil {
		t.Fatal(err)
	}
	meta := nats.NewMsg(described.Subject)
	meta.Data = text
	meta.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	if _, err := js.PublishMsg(ctx, meta); err != nil {
		t.Fatal(err)
	}
	if got, _, err := Read(ctx, NewNATS(js, 1), crawled("k")); !errors.Is(err, ErrDamaged) || got != nil {
		t.Errorf("wrong digest: %q, %v", got, err)
	}
	if err := bucket.Purge(ctx, jetstream.WithPurgeSubject("$O.crawls.C.>")); err != nil {
		t.Fatal(err)
	}
	got, _, err := read(ctx, NewNATS(js, 1), crawled("k"), Stall/10)
	if err == nil || got != nil || !strings.Contains(err.Error(), "sent nothing") {
		t.Errorf("without chunks: %q, %v", got, err)
	}
}

// TestLaggingCopy: what was stored is found at once, though a copy of the bucket lacks it. The copy is a mirror from
// which the object was deleted: it answers direct requests as the copies in a cluster do.
func TestLaggingCopy(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	storage, ctx := NewNATS(js, 1), t.Context()
	if _, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "crawls"}); err != nil {
		t.Fatal(err)
	}
	copied, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "COPY", AllowDirect: true, MirrorDirect: true, Mirror: &jetstream.StreamSource{Name: "OBJ_crawls"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Put(ctx, crawled("a"), strings.NewReader("[1]")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); copied.DeleteMsg(ctx, 2) != nil; { // it is not there yet
		if time.Now().After(end) {
			t.Fatal("the copy does not follow")
		}
		time.Sleep(time.Millisecond)
	}
	for range 50 {
		if got, _, err := Read(ctx, storage, crawled("a")); err != nil || string(got) != "[1]" {
			t.Fatalf("read %q, %v", got, err)
		}
	}
}
