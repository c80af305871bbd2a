package client

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Message is what goes on a stream.
type Message struct {
	Subject string
	ID      string // of which the stream keeps one within its dedup window; empty: it keeps all
	Data    []byte // must not change until the publishing call returns
}

// EventMessage is the message of an event that decoded to r from data. It has
// no id where that begins with a blank, which headers lose: the stream would
// take two events for one. What it then keeps twice is counted once all the
// same, by its identity.
func EventMessage(r *event.Record, data []byte) Message {
	m := Message{Subject: stream.EventSubject(string(r.Stage), r.URLHash), ID: r.MessageID(), Data: data}
	if m.ID[0] == ' ' {
		m.ID = ""
	}
	return m
}

func (m *Message) msg() *nats.Msg {
	header := nats.Header{}
	if m.ID != "" {
		header[jetstream.MsgIDHeader] = []string{m.ID}
	}
	return &nats.Msg{Subject: m.Subject, Data: m.Data, Header: header}
}

// overhead bounds what a message needs on the wire beside subject, id and
// data: the names of headers, the batch's id and number.
const overhead = 256

func (m *Message) size() int { return len(m.Subject) + len(m.ID) + len(m.Data) + overhead }

// Status is what became of a message.
type Status uint8

// What can become of a message.
const (
	Failed    Status = iota // Outcome.Err says why; it may still be stored if that is ErrUnknown
	Accepted                // stored by this call
	Duplicate               // the stream had its id already
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
	// ErrBusy: too much waits to be published already.
	ErrBusy = errors.New("too many messages wait to be published")
	// ErrUnknown: the context ended before the message's fate was known.
	ErrUnknown = errors.New("message is not acknowledged")
)
