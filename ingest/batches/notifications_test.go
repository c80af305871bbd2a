package batches

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/storagetest"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// stored is a notification that objects of the bucket crawl were stored.
func stored(keys ...string) string {
	var records []string
	for _, key := range keys {
		records = append(records, fmt.Sprintf(`{"eventName":"s3:ObjectCreated:Put","s3":{"bucket":{"name":"crawl"},`+
			`"object":{"key":%q}}}`, url.QueryEscape(key)))
	}
	return `{"Records":[` + strings.Join(records, ",") + `]}`
}

// contents are what was read of each batch: the formats, and how many items.
func (r *room) contents() map[schema.ID]string {
	r.Helper()
	all, hashes := map[schema.ID]string{}, map[schema.ID][32]byte{}
	for _, one := range r.read() {
		id := one.About.Batch
		if h, there := hashes[id]; there && h == one.Hash {
			continue
		}
		hashes[id] = one.Hash
		all[id] += fmt.Sprint(one.About.Format, " ", one.About.Object, " ", one.About.Platform, " ", len(one.Items), ";")
	}
	return all
}

// TestNotifications: the object that a notification is about says which batch it holds, each of
// several gets an outcome of its own, and what does not say that something was stored changes
// nothing (invariant 6).
func TestNotifications(t *testing.T) {
	r := newRoom(t)
	array := []byte("[" + strings.Join(items(3), ",") + "]")
	r.put("crawl", "tiktok/p-b-0/batch_001.json", array)
	r.put("crawl", "p-b-0/2.json", array)
	r.put("crawl", "a b+c/3.json", array)
	r.put("crawl", "unnamed", array)
	r.put("crawl", "cut/1.gz", zipped(array)[:30])
	bucket, err := r.js.ObjectStore(t.Context(), "crawl")
	if err != nil {
		t.Fatal(err)
	}
	described := jetstream.ObjectMeta{
		Name: "described", Metadata: map[string]string{"Job-Id": "q-b-0", "batch_index": "04", "platform": "youtube"},
	}
	if _, err := bucket.Put(t.Context(), described, strings.NewReader(items(1)[0])); err != nil {
		t.Fatal(err)
	}
	once := stored("tiktok/p-b-0/batch_001.json")
	r.publish(
		once, once, // 1 and 2: notifications may come twice
		stored("cut/1.gz", "a//1.json", "p-b-0/2.json", "a b+c/3.json", "described"), // 3, whose first two become letters
		stored("unnamed"), // 4
		`{"Records":[{"eventName":"s3:ObjectRemoved:Delete","s3":{"bucket":{"name":"crawl"},"object":{"key":"gone/1.json"}}}]}`,
		`{"Service":"S3","Event":"s3:TestEvent","Bucket":"Test-Bucket"}`,
		`{"Records":[{"eventName":"s3:ObjectCreated:Put"}]}`, // 7
	)
	stop := r.run()
	r.left(0)
	stop()
	want := map[schema.ID]string{
		{Job: "p-b-0", Index: 1}: "notification crawl/tiktok/p-b-0/batch_001.json tiktok 3;",
		{Job: "p-b-0", Index: 2}: "notification crawl/p-b-0/2.json  3;",
		{Job: "a b+c", Index: 3}: "notification crawl/a b+c/3.json  3;",
		{Job: "q-b-0", Index: 4}: "notification crawl/described youtube 1;",
	}
	if got := r.contents(); !reflect.DeepEqual(got, want) {
		t.Errorf("read %v\nwant %v", got, want)
	}
	letters := map[string]int{}
	for _, code := range r.letters() {
		letters[code]++
	}
	if want := map[string]int{
		"=object_damaged": 1, "Records[0].s3.object.key=object_unnamed": 1, "Records[0].s3=object_name": 2,
	}; !reflect.DeepEqual(letters, want) {
		t.Errorf("letters %v\nwant    %v", letters, want)
	}
}

// TestNotificationModes: notifications wait while the new mode is off.
func TestNotificationModes(t *testing.T) {
	r := newRoom(t)
	r.start = schema.Modes{Legacy: true, NewShare: 1}
	r.put("crawl", "p-b-0/1.json", []byte("[]"))
	r.publish(stored("p-b-0/1.json"), `{"job_id":"p-b-0","batch_index":2,"items":[]}`)
	stop := r.run()
	defer stop()
	r.left(1)
	r.set(schema.Modes{New: true})
	r.left(0)
}

// TestS3Notifications: a real server of S3 says what was stored, over NATS, and each object is
// read once, with the metadata that it was stored with.
func TestS3Notifications(t *testing.T) {
	slowtest.Mark(t)
	r := newRoom(t)
	endpoint := storagetest.S3(t, "--event-nats-url", r.nats.URL(), "--event-nats-topic", stream.BatchNotified)
	var err error
	r.storage, err = objects.NewS3(objects.S3Config{
		Endpoint: endpoint, AccessKey: storagetest.User, SecretKey: storagetest.Password, Region: "us-east-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	writer := storagetest.Client(t, endpoint, "crawls")
	stop := r.run()
	defer stop()
	content := "[" + strings.Join(items(2), ",") + "]"
	for key, metadata := range map[string]map[string]string{
		"tiktok/p-b-0/batch_001.json": nil,
		"some/where/else.json":        {"job-id": "q-b-0", "batch-index": "7", "platform": "youtube"},
	} {
		_, err := writer.PutObject(t.Context(), "crawls", key, strings.NewReader(content), int64(len(content)),
			minio.PutObjectOptions{UserMetadata: metadata, ContentType: "application/json"})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.reads(2)
	if err := writer.RemoveObject(t.Context(), "crawls", "some/where/else.json", minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	r.left(0)
	want := map[schema.ID]string{
		{Job: "p-b-0", Index: 1}: "notification crawls/tiktok/p-b-0/batch_001.json tiktok 2;",
		{Job: "q-b-0", Index: 7}: "notification crawls/some/where/else.json youtube 2;",
	}
	if got := r.contents(); !reflect.DeepEqual(got, want) || len(r.letters()) > 0 {
		t.Errorf("read %v\nwant %v\nletters %v", got, want, r.letters())
	}
}

// reads waits until so many batches have been read.
func (r *room) reads(n uint64) {
	r.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		st, err := r.js.Stream(r.Context(), stream.BatchesRead)
		if err == nil && st.CachedInfo().State.LastSeq >= n {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("%d batches are read, want %d: %v", st.CachedInfo().State.LastSeq, n, err)
		}
	}
}

// TestNotificationsOverHTTP: a server of S3 may send notifications to POST /batches.
func TestNotificationsOverHTTP(t *testing.T) {
	s := serve(t, authOff)
	if status, told := s.post("/batches", stored("p-b-0/1.json")); status != http.StatusAccepted || told != "notification  0 1" {
		t.Errorf("%d %q", status, told)
	}
	if status, told := s.post("/batches", stored("../a")); status != http.StatusBadRequest || told != "Records[0].s3=object_name" {
		t.Errorf("%d %q", status, told)
	}
}
