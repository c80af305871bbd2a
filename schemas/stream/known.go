package stream

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/millrace-io/millrace/schemas/event"
)

// A publisher asks projectors, in a NATS request, which of its events are known: whether
// the same event is on the stream, or was, or another event has its identity.
//
// Every projector gets every question, and answers for the slots whose key stores it has.
// What no answer covers is not known to be a repeat; a projector tells it when it folds
// the event. So a publisher that is not answered may call a repeat accepted, and never
// calls a new event a repeat.

// MaxKnownItems bounds the events of a question.
const MaxKnownItems = 1000

// KnownQuestion asks after events.
type KnownQuestion struct {
	// NotBefore has a projector wait a little until it has folded the stream up
	// to this sequence, where it has not; 0: it answers at once.
	NotBefore uint64
	Items     []KnownItem
}

// KnownItem is what identifies an event.
type KnownItem struct {
	Slot        byte // the first byte of url_hash
	Identity    event.Identity
	Fingerprint event.Fingerprint
}

// KnownAnswer is what one projector knows.
type KnownAnswer struct {
	Slots KnownSlots // for which it answers
	Found []Found
}

// Found is an identity that is known.
type Found struct {
	Item     uint16 // its place in the question
	Conflict bool   // an event of another stage or service has it
	Seq      uint64 // of the event that has it, in the stream
}

// KnownSlots is a set of slots.
type KnownSlots [4]uint64

// Add adds a slot.
func (s *KnownSlots) Add(slot byte) { s[slot>>6] |= 1 << (slot & 63) }

// Has tells whether a slot is in the set.
func (s *KnownSlots) Has(slot byte) bool { return s[slot>>6]&(1<<(slot&63)) != 0 }

// Join adds all slots of another set.
func (s *KnownSlots) Join(other KnownSlots) {
	for i := range s {
		s[i] |= other[i]
	}
}

// Without returns the slots that are not in another set.
func (s KnownSlots) Without(other KnownSlots) KnownSlots {
	for i := range s {
		s[i] &^= other[i]
	}
	return s
}

// Len returns how many slots the set has.
func (s KnownSlots) Len() (n int) {
	for _, part := range s {
		n += bits.OnesCount64(part)
	}
	return n
}

// The form of both messages: a version, numbers in little-endian order, and
// entries of one size to the end.
const (
	version      = 1
	questionHead = 1 + 8
	itemSize     = 1 + 16 + 8
	answerHead   = 1 + 32
	foundSize    = 2 + 1 + 8
)

// ErrKnownForm is the error of bytes that are no question, or no answer.
var ErrKnownForm = errors.New("not in the form of questions after known events, or of another version")

// AppendBinary appends the question's form.
func (q *KnownQuestion) AppendBinary(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, version), q.NotBefore)
	for i := range q.Items {
		it := &q.Items[i]
		dst = append(append(dst, it.Slot), it.Identity[:]...)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(it.Fingerprint))
	}
	return dst
}

// ParseKnownQuestion reads what AppendBinary has written.
func ParseKnownQuestion(data []byte) (q KnownQuestion, err error) {
	if !wellFormed(data, questionHead, itemSize) {
		return q, ErrKnownForm
	}
	q.NotBefore = binary.LittleEndian.Uint64(data[1:])
	q.Items = make([]KnownItem, 0, (len(data)-questionHead)/itemSize)
	for data = data[questionHead:]; len(data) > 0; data = data[itemSize:] {
		q.Items = append(q.Items, KnownItem{
			Slot: data[0], Identity: event.Identity(data[1:17]),
			Fingerprint: event.Fingerprint(binary.LittleEndian.Uint64(data[17:])),
		})
	}
	return q, nil
}

// AppendBinary appends the answer's form.
func (a *KnownAnswer) AppendBinary(dst []byte) []byte {
	dst = append(dst, version)
	for _, part := range a.Slots {
		dst = binary.LittleEndian.AppendUint64(dst, part)
	}
	for _, f := range a.Found {
		dst = binary.LittleEndian.AppendUint16(dst, f.Item)
		conflict := byte(0)
		if f.Conflict {
			conflict = 1
		}
		dst = binary.LittleEndian.AppendUint64(append(dst, conflict), f.Seq)
	}
	return dst
}

// ParseKnownAnswer reads what AppendBinary has written in answer to a question of so
// many items.
func ParseKnownAnswer(data []byte, items int) (a KnownAnswer, err error) {
	if !wellFormed(data, answerHead, foundSize) {
		return a, ErrKnownForm
	}
	for i := range a.Slots {
		a.Slots[i] = binary.LittleEndian.Uint64(data[1+8*i:])
	}
	a.Found = make([]Found, 0, (len(data)-answerHead)/foundSize)
	for data = data[answerHead:]; len(data) > 0; data = data[foundSize:] {
		f := Found{
			Item: binary.LittleEndian.Uint16(data), Conflict: data[2] == 1,
			Seq: binary.LittleEndian.Uint64(data[3:]),
		}
		if int(f.Item) >= items || data[2] > 1 {
			return KnownAnswer{}, ErrKnownForm
		}
		a.Found = append(a.Found, f)
	}
	return a, nil
}

func wellFormed(data []byte, head, size int) bool {
	return len(data) >= head && data[0] == version && (len(data)-head)%size == 0 && (len(data)-head)/size <= MaxKnownItems
}
