package batches_test

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/schemas/batches"
)

func example(t testing.TB) *batches.Read {
	t.Helper()
	a, broken := batches.ReadAnnouncement([]byte(`{"payload":{"minio_path":"crawl/a.json","job_id":"p-b-0",
		"batch_index":3,"content_count":2,"platform":"tiktok","keyword":"ключ"}}`))
	if broken != nil {
		t.Fatal(broken)
	}
	r := &batches.Read{About: a, AnnouncedAt: time.Unix(1_700_000_000, 5).UTC(), Hash: [32]byte{1, 31: 2}}
	for _, text := range []string{
		`{"content_id":"7","fetch_status":"success","crawled_at":"2026-02-10T14:30:00.123456789Z"}`,
		`{"id":70000000000000000001,"fetch_status":"error","error_code":"TIMEOUT","error_details":{"a":[1]}}`, "", "\xff no item",
	} {
		r.Items = append(r.Items, batches.Item{Outcome: batches.ReadItem([]byte(text)), Content: []byte(text)})
	}
	return r
}

// TestRead: what was read is the same behind its binary form, and no part of the form is one.
func TestRead(t *testing.T) {
	want := example(t)
	form, err := want.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := batches.ParseRead(form)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
	for end := range form {
		if got, err := batches.ParseRead(form[:end]); err == nil {
			t.Fatalf("the first %d bytes of %d are %+v", end, len(form), got)
		}
	}
	for _, wrong := range [][2]string{
		{`"Index":3`, `"Index":-3`},
		{`"Job":"p-b-0"`, `"Job":"p-b\u0000"`},
		{`"Job":"p-b-0"`, `"Job":""`},
		{`"Format":0`, `"Format":4`},
		{`"Format":0`, `"Format":2`},
		{`"Bucket":"crawl"`, `"Bucket":"../up"`},
		{`"Count":2`, `"Count":-7`},
	} {
		size, n := binary.Uvarint(form)
		about := strings.Replace(string(form[n:n+int(size)]), wrong[0], wrong[1], 1)
		text := append(binary.AppendUvarint(nil, uint64(len(about))), about...)
		if _, err := batches.ParseRead(append(text, form[n+int(size):]...)); err == nil {
			t.Errorf("%s is taken", wrong[1])
		}
	}
	many := []byte(strings.Replace(string(form), `"Items":4}`, `"Items":9}`, 1))
	if _, err := batches.ParseRead(many); err == nil {
		t.Error("a number of items is believed that is wrong")
	}
}

func FuzzParseRead(f *testing.F) {
	form, err := example(f).Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(form)
	f.Fuzz(func(t *testing.T, form []byte) {
		r, err := batches.ParseRead(form)
		if err != nil {
			return
		}
		again, err := r.Append(nil)
		if err != nil {
			t.Skip(err) // a time of no year that JSON has
		}
		if same, err := batches.ParseRead(again); err != nil || !reflect.DeepEqual(same.Items, r.Items) {
			t.Errorf("%v\n%+v\n%+v", err, r, same)
		}
	})
}
