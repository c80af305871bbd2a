package fold

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/schemas/item"
)

// Message is a message of an input. Nobody may write to its data.
type Message struct {
	Subject string
	Data    []byte
	Seq     uint64
	Time    int64 // when the input received it, Unix nanoseconds
	// Pending counts the messages of the input behind this one.
	Pending uint64
	// Trace is the header stream.TraceParent, where the input reads it. Anybody may have
	// written it.
	Trace string
}

// Letter returns the message as a dead letter of a stream, for a reason.
func (m Message) Letter(stream string, reason item.Invalid) deadletter.Letter {
	return deadletter.Letter{
		Stream: stream, Subject: m.Subject, Seq: m.Seq, Time: time.Unix(0, m.Time), Data: m.Data, Reason: reason,
	}
}

// StreamState is what an input has.
type StreamState struct {
	First, Last uint64    // sequences of its first and last message
	At          time.Time // by the clock of the input
	// Partial says that readers pass over messages that the view does not need. The
	// position of its fold then does not move while the input grows.
	Partial bool
}

// Reader reads an input behind a position.
type Reader interface {
	// Next returns the messages that have arrived, and waits if there are none. The
	// slice is valid until the next call but one. It returns an error only when ctx
	// ends or the input has lost messages that were read.
	Next(ctx context.Context) ([]Message, error)
	// CaughtUp returns the last sequence received, and up to where the input had
	// nothing else for this reader a moment ago, 0 if that is not known. It may be
	// called beside Next.
	CaughtUp() (last, upTo uint64)
	// Close stops reading.
	Close()
}
