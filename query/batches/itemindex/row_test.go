package itemindex

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"
)

// FuzzRow holds rows to being read as they were written, and whatever else is read to being
// refused without harm.
func FuzzRow(f *testing.F) {
	f.Add("id", "job", int64(1), int64(2), uint32(3), uint32(4), uint64(5), "text", []byte{})
	f.Add("", "", int64(0), int64(-1), uint32(0), uint32(0), uint64(0), "", []byte{0, 255})
	f.Fuzz(func(t *testing.T, id, job string, crawled, read int64, batch, position uint32, version uint64, text string, other []byte) {
		r := Row{
			Job: job, Batch: batch, Position: position, Version: version, ContentID: id, ReadAt: time.Unix(0, read).UTC(),
			CreatedAt: time.Unix(0, crawled).UTC(),
		}
		if crawled != 0 {
			at := time.Unix(0, crawled).UTC()
			r.CrawledAt = &at
		}
		for i, field := range r.texts() {
			*field = text[:len(text)*i/10]
		}
		key, value := r.key(nil), r.value(nil)
		if got, err := parse(id, key, value); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("read %+v of %+v: %v", got, r, err)
		}
		_, _ = parse(id, key, other)
		_, _ = parse(id, other, value)
		_, _ = parse(id, slices.Concat(prefix(nil, id), other), value)
	})
}

// TestOrder holds keys to the order in which items are shown.
func TestOrder(t *testing.T) {
	at := func(s int64) *time.Time {
		at := time.Unix(s, 0)
		return &at
	}
	rows := []Row{ // in that order
		{ContentID: "a", CrawledAt: at(2)},
		{ContentID: "b", CrawledAt: at(9), ReadAt: *at(1)},
		{ContentID: "b", CrawledAt: at(2), ReadAt: *at(7)},
		{ContentID: "b", CrawledAt: at(2), ReadAt: *at(5)},
		{ContentID: "b", CrawledAt: at(-3), ReadAt: *at(8)},
		{ContentID: "b", ReadAt: *at(9)},
		{ContentID: "aa", CrawledAt: at(9)},
	}
	var before []byte
	for i := range rows {
		key := rows[i].key(nil)
		if bytes.Compare(before, key) >= 0 {
			t.Errorf("row %d is not behind the one before", i)
		}
		before = key
	}
}
