package uploads

import (
	"encoding/base64"
	"testing"
	"time"
)

// TestCursor: a cursor is "updated_at|id" in base64, comes back as it was, and nothing else is one.
func TestCursor(t *testing.T) {
	const job = "0199f0a2-7c1e-7000-8000-000000000001"
	at := time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC)
	for _, c := range []Cursor{{at, job, 7}, {time.Time{}, job, MaxRows}} {
		if got, ok := DecodeCursor(c.Encode()); !ok || got != c {
			t.Errorf("%v became %v, %t", c, got, ok)
		}
	}
	raw, _ := base64.URLEncoding.DecodeString(Cursor{at, job, 7}.Encode())
	if want := "2026-03-04T05:06:07.123456Z|" + job + "-7"; string(raw) != want {
		t.Errorf("%s, want %s", raw, want)
	}
	encode := base64.StdEncoding.EncodeToString
	if got, ok := DecodeCursor(encode([]byte("2026-03-04T07:06:07.123456+02:00|" + job + "-7"))); !ok || !got.At.Equal(at) {
		t.Errorf("another time zone: %v, %t", got, ok)
	}
	for _, text := range []string{
		"", "x", "%%%", encode([]byte("|")), encode([]byte("yesterday|" + job + "-7")), encode([]byte(job + "-7")),
		encode([]byte("|" + job + "-0")), encode([]byte("|" + job + "-07")), encode([]byte("|" + job + "--7")),
		encode([]byte("|" + job + "-9999999999")), encode([]byte("0001-01-01T00:00:00Z|" + job + "-7")),
	} {
		if c, ok := DecodeCursor(text); ok && c.Job == job {
			t.Errorf("%q was read as %v", text, c)
		}
	}
}

// TestBatch: batches grow while transactions are short, stay between the bounds, and shrink when the
// database is slow, when connections are scarce, and most when it fails.
func TestBatch(t *testing.T) {
	bounds, err := Bounds{MinRows: 10, MaxRows: 1000, P50: 20 * time.Millisecond, P95: 100 * time.Millisecond}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch(bounds)
	step := func(want int, took time.Duration, waited bool) {
		t.Helper()
		if b.Took(b.Rows(), took, waited); b.Rows() != want {
			t.Errorf("%d rows after %s, want %d", b.Rows(), took, want)
		}
	}
	for _, want := range []int{20, 40, 80, 160, 320, 640, 1000, 1000} {
		step(want, 5*time.Millisecond, false)
	}
	step(1000, 30*time.Millisecond, false) // between the targets it stays
	step(500, time.Millisecond, true)
	if b.Took(3, time.Millisecond, false); b.Rows() != 500 {
		t.Errorf("%d rows after a batch that was not full", b.Rows())
	}
	step(250, time.Second, false)
	b.Failed()
	if b.Rows() != 62 {
		t.Errorf("%d rows after a failure, want 62", b.Rows())
	}
	for range 20 {
		b.Took(b.Rows(), time.Second, false)
	}
	if b.Rows() != 10 {
		t.Errorf("%d rows, want the fewest", b.Rows())
	}
	for _, wrong := range []Bounds{{MinRows: 20, MaxRows: 10}, {MaxBytes: 1}, {P50: time.Second, P95: time.Millisecond}, {MinRows: -1}} {
		if _, err := wrong.WithDefaults(); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
}

func TestParseStatuses(t *testing.T) {
	if all, err := ParseStatuses(""); err != nil || len(all) != 6 {
		t.Error(all, err)
	}
	if all, err := ParseStatuses("ERROR,PENDING,ERROR"); err != nil || len(all) != 2 || all[0] != Error || all[1] != Pending {
		t.Error(all, err)
	}
	for _, wrong := range []string{"x", "ERROR,", "error"} {
		if all, err := ParseStatuses(wrong); err == nil {
			t.Errorf("%q was read as %v", wrong, all)
		}
	}
}
