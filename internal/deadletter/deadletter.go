// Package deadletter puts messages that cannot be processed into the DLQ
// stream, each once, with the reason in its headers.
package deadletter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Letter is a message of a stream and why it can't be processed.
type Letter struct {
	Stream  string
	Subject string
	Seq     uint64
	Time    time.Time // when the stream received it
	Data    []byte
	Removed bool // the stream has removed the message since, and there is no data
	Reason  item.Invalid
}

// Publish puts the letters into the DLQ stream and returns when all are durable or
// ctx ends. It stores a letter that is there already no second time: each letter has
// a subject of its own, which the server takes once.
func Publish(ctx context.Context, js jetstream.JetStream, letters []Letter, log *slog.Logger) error {
	err := backoff.Do(ctx, func() (err error) {
		letters, err = publish(ctx, js, letters)
		return err
	}, retry.WarnWait(log, "dead letters not stored, trying again", "letters", len(letters)))
	if err != nil {
		return fmt.Errorf("publish dead letters: %w", err)
	}
	return nil
}

// backoff is how long to wait before letters are published again.
var backoff = retry.Backoff{First: 50 * time.Millisecond, Most: 5 * time.Second}

// publish tries each letter once and returns those whose outcome is not sure.
func publish(ctx context.Context, js jetstream.JetStream, letters []Letter) (left []Letter, err error) {
	sent := make([]jetstream.PubAckFuture, 0, len(letters))
	for _, l := range letters {
		f, e := js.PublishMsgAsync(message(l, int(js.Conn().MaxPayload())),
			jetstream.WithExpectLastSequencePerSubject(0), jetstream.WithRetryAttempts(0))
		if e != nil { // no connection, or too many without an answer
			err = e
			break
		}
		sent = append(sent, f)
	}
	for i, f := range sent {
		if e := await(ctx, f); e != nil {
			left, err = append(left, letters[i]), e
		}
	}
	return append(left, letters[len(sent):]...), err
}

// await waits for the outcome of a letter.
func await(ctx context.Context, f jetstream.PubAckFuture) error {
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		var refused *jetstream.APIError
		if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return nil
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxHeader bounds the value of a header, in bytes: a stream takes 64 KiB of
// them in all, and a reason may quote what is wrong.
const maxHeader = 4 << 10

// ownHeaders is room, in bytes, for the headers that publishing adds.
const ownHeaders = 256

// message makes a letter that a server takes whose messages have at most limit
// bytes, headers included. What there is no room for is left out, and said to
// be: a message as large as messages may be must not block those behind it.
func message(l Letter, limit int) *nats.Msg {
	m := nats.NewMsg(stream.DeadLetterSubject(l.Stream, l.Seq))
	for name, value := range map[string]string{
		stream.HeaderReason:  l.Reason.Rule,
		stream.HeaderCode:    l.Reason.Code,
		stream.HeaderField:   l.Reason.Field,
		stream.HeaderSubject: l.Subject,
		stream.HeaderStream:  l.Stream,
		stream.HeaderSeq:     strconv.FormatUint(l.Seq, 10),
		stream.HeaderTime:    l.Time.UTC().Format(time.RFC3339Nano),
	} {
		m.Header.Set(name, oneLine.Replace(value[:min(len(value), maxHeader)]))
	}
	m.Header.Set(stream.HeaderReplayID, rand.Text())
	m.Data = l.Data
	if l.Removed {
		m.Header.Set(stream.HeaderCut, "1") // at least
	}
	if over := m.Size() - len(m.Subject) + ownHeaders - limit; over > 0 {
		m.Data = l.Data[:max(0, len(l.Data)-over)]
		m.Header.Set(stream.HeaderCut, strconv.Itoa(len(l.Data)-len(m.Data)))
	}
	return m
}

var oneLine = strings.NewReplacer("\r", " ", "\n", " ")
