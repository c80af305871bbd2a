package publish

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Message is what goes on a stream.
type Message struct {
	Subject string
	Data    []byte // must not change until the publishing call returns
	// Event identifies the event that the message is; zero: it is none, and no
	// other is a repeat of it.
	Event stream.KnownItem

	trace string // header stream.TraceParent; empty: none
}

// EventMessage is the message of an event that decoded to r from data.
func EventMessage(r *event.Record, data []byte) Message {
	return Message{
		Subject: stream.EventSubject(string(r.Stage), r.URLHash), Data: data,
		Event: stream.KnownItem{Slot: r.URLHash[0], Identity: r.Identity(), Fingerprint: r.Fingerprint()},
	}
}

func (m *Message) isEvent() bool { return m.Event.Fingerprint != 0 }

func (m *Message) msg() *nats.Msg {
	header := nats.Header{}
	if m.trace != "" {
		header.Set(stream.TraceParent, m.trace)
	}
	return &nats.Msg{Subject: m.Subject, Data: m.Data, Header: header}
}

// overhead bounds what a message needs on the wire beside subject and data: the
// names of headers, the batch's id and number.
const overhead = 256

func (m *Message) size() int {
	size := len(m.Subject) + len(m.Data) + overhead
	if m.trace != "" {
		size += len(stream.TraceParent) + len(": \r\n") + len(m.trace)
	}
	return size
}

// Status is what became of a message.
type Status uint8

// What can become of a message.
const (
	Failed    Status = iota // Outcome.Err says why; it may still be stored if that is ErrUnknown
	Accepted                // stored by this call
	Duplicate               // an event that the stream had, or that has been counted
)

func (s Status) String() string {
	return [...]string{"failed", "accepted", "duplicate"}[s]
}

// Outcome is what became of one message of a call.
type Outcome struct {
	Status Status
	Err    error // with Failed
}

// Errors that callers tell apart. Those of the server are wrapped beside them.
var (
	// ErrTooLarge: the message, or its header, exceeds what the server takes.
	ErrTooLarge = errors.New("message is larger than the server takes")
	// ErrStreamFull: the stream or its account has reached a limit, or takes no
	// more messages of any kind. It may again when that is changed.
	ErrStreamFull = errors.New("stream is full")
	// ErrRefused: the server will not take the message, however often it is
	// sent.
	ErrRefused = errors.New("server refused the message")
	// ErrConflict: an event of another stage or service has the event's key. It
	// is an ErrRefused, too, and a *KeyConflict.
	ErrConflict = fmt.Errorf("%w: its key is that of an event of another stage or service", ErrRefused)
	// ErrBusy: too much waits to be published already.
	ErrBusy = errors.New("too many messages wait to be published")
	// ErrUnknown: the context ended before the message's fate was known.
	ErrUnknown = errors.New("message is not acknowledged")
)

// KeyConflict is the error of an event whose key another event has.
type KeyConflict struct {
	Seq uint64 // of that event in the stream EVENTS; 0: it is not known yet
}

func (e *KeyConflict) Error() string {
	if e.Seq == 0 {
		return ErrConflict.Error()
	}
	return fmt.Sprintf("%v: message %d of %s", ErrConflict, e.Seq, stream.Events)
}

func (*KeyConflict) Unwrap() error { return ErrConflict }
