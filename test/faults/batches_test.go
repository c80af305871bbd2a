package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/port"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/schemas/object"
)

// TestObjectStore: each fault of object storage is what it says to the client that Millrace uses.
func TestObjectStore(t *testing.T) {
	addrs, err := port.Reserve(1)
	must(t, err)
	s := newObjectStore(3, addrs[0])
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.run(ctx) }()
	defer func() { cancel(); must(t, <-over) }()
	storage, err := objects.NewS3(objects.S3Config{Endpoint: "http://" + addrs[0], Region: "us-east-1"})
	must(t, err)
	content, next := makeContent(1, 0, false).text, makeContent(1, 1, false).text
	read := func(key string) ([]byte, error) {
		content, _, err := objects.Read(ctx, storage, object.Name{Bucket: "crawl-0", Key: key})
		return content, err
	}
	within(time.Minute, func() bool { _, err := read("none"); return errors.Is(err, objects.ErrMissing) })
	for k, want := range map[kind]func([]byte, error) bool{
		"none":       func(got []byte, err error) bool { return err == nil && bytes.Equal(got, content) },
		slowObjects:  func(got []byte, err error) bool { return err == nil && bytes.Equal(got, content) },
		cutObjects:   func(_ []byte, err error) bool { return err != nil && !errors.Is(err, objects.ErrDamaged) },
		wrongObjects: func(_ []byte, err error) bool { return errors.Is(err, objects.ErrDamaged) },
		lyingObjects: func(_ []byte, err error) bool { return errors.Is(err, objects.ErrDamaged) },
		overwriteObjects: func(got []byte, err error) bool {
			return err == nil && (bytes.Equal(got, content) || bytes.Equal(got, next))
		},
	} {
		s.put("crawl-0/a/b.json", content, next)
		end := s.begin(k)
		got, err := read("a/b.json")
		if !want(got, err) {
			t.Errorf("%s: %d bytes, %v", k, len(got), err)
		}
		must(t, end())
		if got, err := read("a/b.json"); err != nil || bytes.Equal(got, next) != (k == overwriteObjects) {
			t.Errorf("after %s: %d bytes, %v", k, len(got), err)
		}
	}
}

// TestBatchNotices: an outcome that is lost, doubled or wrong, and sums that are wrong, are found.
func TestBatchNotices(t *testing.T) {
	id := batchID{"proj_0-brand-0", 5}
	sent := &sentBatch{contents: []batchContent{makeContent(5, 0, false)}}
	c := sent.contents[0]
	again := slices.Index(c.outcomes, itemRetried)
	if again < 0 || c.count(itemOK) == 0 || c.count(itemError) == 0 {
		t.Fatalf("%v", c.outcomes)
	}
	for name, test := range map[string]struct {
		break_        func(*storedBatch, map[[2]int]outcomeRow, map[outcomeID]bool)
		lost, doubled int
	}{
		"":     {},
		"lost": {func(_ *storedBatch, o map[[2]int]outcomeRow, _ map[outcomeID]bool) { delete(o, [2]int{0, 0}) }, 1, 0},
		"doubled": {func(_ *storedBatch, o map[[2]int]outcomeRow, _ map[outcomeID]bool) {
			o[[2]int{1, 0}] = outcomeRow{o[[2]int{1, 0}].ok, 2}
		}, 0, 1},
		"a retry that is lost": {func(b *storedBatch, _ map[[2]int]outcomeRow, _ map[outcomeID]bool) {
			delete(b.errors, again)
			b.now.OK, b.now.Retrying = b.now.OK+1, b.now.Retrying-1
		}, 1, 0},
		"a retry that is forgotten": {func(_ *storedBatch, _ map[[2]int]outcomeRow, r map[outcomeID]bool) {
			r[outcomeID{id, again}] = true
		}, 0, 0},
		"sums":    {func(b *storedBatch, _ map[[2]int]outcomeRow, _ map[outcomeID]bool) { b.now.OK++ }, 0, 0},
		"content": {func(b *storedBatch, _ map[[2]int]outcomeRow, _ map[outcomeID]bool) { b.hash = "00" }, 0, 0},
		"one too many": {func(_ *storedBatch, o map[[2]int]outcomeRow, _ map[outcomeID]bool) {
			o[[2]int{99, 0}] = outcomeRow{1, 1}
		}, 0, 0},
	} {
		b := &storedBatch{hash: hex.EncodeToString(c.hash[:]), errors: map[int]string{}}
		outcomes, retried := map[[2]int]outcomeRow{}, map[outcomeID]bool{}
		for position, fate := range c.outcomes {
			outcomes[[2]int{position, 0}] = outcomeRow{btoi(fate == itemOK), 1}
			switch fate {
			case itemError:
				b.errors[position] = "error"
			case itemRetried:
				b.errors[position] = "queued"
			}
		}
		b.now = batchNow{
			JobID: id.job, BatchIndex: id.index, Count: len(c.items), OK: c.count(itemOK), Error: c.count(itemError),
			Retrying: c.count(itemRetried),
		}
		if test.break_ != nil {
			test.break_(b, outcomes, retried)
		}
		v := &batchVerdict{}
		v.compare(id, sent, b, outcomes, retried)
		if v.lost != test.lost || v.doubled != test.doubled || (len(v.mismatches) == 0) != (name == "") {
			t.Errorf("%q: %+v", name, v)
		}
	}
}
