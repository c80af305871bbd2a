package stream

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/millrace-io/millrace/schemas/event"
)

func example() (KnownQuestion, KnownAnswer) {
	q := KnownQuestion{NotBefore: 7, Items: []KnownItem{
		{Slot: 0, Identity: event.Identity{1}, Fingerprint: 2},
		{Slot: 255, Identity: event.Identity{15: 9}, Fingerprint: math.MaxUint64},
	}}
	a := KnownAnswer{Found: []Found{{Item: 0, Seq: 5}, {Item: 1, Conflict: true, Seq: math.MaxUint64}}}
	a.Slots.Add(0)
	a.Slots.Add(255)
	return q, a
}

func TestRoundTrip(t *testing.T) {
	q, a := example()
	gotQ, err := ParseKnownQuestion(q.AppendBinary(nil))
	if err != nil || !reflect.DeepEqual(gotQ, q) {
		t.Errorf("got %+v, %v; want %+v", gotQ, err, q)
	}
	gotA, err := ParseKnownAnswer(a.AppendBinary(nil), len(q.Items))
	if err != nil || !reflect.DeepEqual(gotA, a) {
		t.Errorf("got %+v, %v; want %+v", gotA, err, a)
	}
	if _, err := ParseKnownAnswer(a.AppendBinary(nil), 1); err == nil {
		t.Error("an answer about an item that was not asked after is taken")
	}
	large := KnownQuestion{Items: make([]KnownItem, MaxKnownItems+1)}
	if _, err := ParseKnownQuestion(large.AppendBinary(nil)); err == nil {
		t.Error("a question of too many items is taken")
	}
}

func TestSlots(t *testing.T) {
	var all, even KnownSlots
	for slot := range 256 {
		all.Add(byte(slot))
		if slot%2 == 0 {
			even.Add(byte(slot))
		}
	}
	odd := all.Without(even)
	if all.Len() != 256 || odd.Len() != 128 || odd.Has(0) || !odd.Has(255) {
		t.Errorf("all %d, odd %d: %v", all.Len(), odd.Len(), odd)
	}
	if odd.Join(even); odd != all {
		t.Errorf("odd and even slots are %v", odd)
	}
}

// FuzzParse: bytes are taken only if they are what would be written.
func FuzzParse(f *testing.F) {
	q, a := example()
	f.Add(q.AppendBinary(nil))
	f.Add(a.AppendBinary(nil))
	f.Add([]byte{version})
	f.Fuzz(func(t *testing.T, data []byte) {
		if q, err := ParseKnownQuestion(data); err == nil && !bytes.Equal(q.AppendBinary(nil), data) {
			t.Errorf("question %x is written as %x", data, q.AppendBinary(nil))
		}
		if a, err := ParseKnownAnswer(data, MaxKnownItems); err == nil && !bytes.Equal(a.AppendBinary(nil), data) {
			t.Errorf("answer %x is written as %x", data, a.AppendBinary(nil))
		}
	})
}
