package dlq

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Letter is a message that could not be processed, and why.
type Letter struct {
	ID         uint64    `json:"id" doc:"Its place in the DLQ stream" example:"7"`
	Origin     string    `json:"origin,omitempty" doc:"The stream that the message came from and its place there; also good as an id" example:"EVENTS/91220"`
	Stream     string    `json:"stream,omitempty" doc:"The stream that the message came from" example:"EVENTS"`
	Seq        uint64    `json:"seq,omitempty" doc:"Its place in that stream" example:"91220"`
	Subject    string    `json:"subject,omitempty" doc:"The subject that the message came on" example:"events.cooked.a3"`
	Code       string    `json:"code,omitempty" doc:"The rule that it breaks, for programs" example:"stage_unknown"`
	Field      string    `json:"field,omitempty" doc:"The field that breaks it" example:"stage"`
	Reason     string    `json:"reason,omitempty" doc:"The rule, for people" example:"must be one of crawled, indexed"`
	ReceivedAt time.Time `json:"received_at" doc:"When its stream received the message"`
	DeadAt     time.Time `json:"dead_at" doc:"When it became a letter"`
	Size       int       `json:"size" doc:"Bytes of its body" example:"298"`
	Cut        int       `json:"cut,omitempty" doc:"Bytes of the message's end that are lost: a message as large as messages may be has no room for the reason beside it"`
}

// LetterDetail is a letter with everything that it holds.
type LetterDetail struct {
	Letter
	Headers      map[string][]string `json:"headers" doc:"All headers of the letter"`
	Body         string              `json:"body" doc:"The message's body"`
	BodyEncoding string              `json:"body_encoding" enum:"text,base64" doc:"base64 for a body that is not valid UTF-8"`
}

// found is a letter as it was read.
type found struct {
	Letter
	header nats.Header
	body   []byte
}

func newFound(m *jetstream.RawStreamMsg) found {
	l := Letter{
		ID: m.Sequence, Subject: m.Header.Get(stream.HeaderSubject), Code: m.Header.Get(stream.HeaderCode),
		Field: m.Header.Get(stream.HeaderField), Reason: m.Header.Get(stream.HeaderReason), DeadAt: m.Time.UTC(),
		Size: len(m.Data),
	}
	l.Cut, _ = strconv.Atoi(m.Header.Get(stream.HeaderCut)) // 0 where there is none
	l.Stream, l.Seq = origin(m)
	if l.Stream != "" {
		l.Origin = originID(l.Stream, l.Seq)
	}
	// A letter without its time is one of the moment at which it was written.
	var err error
	if l.ReceivedAt, err = instant.Parse(m.Header.Get(stream.HeaderTime)); err != nil {
		l.ReceivedAt = l.DeadAt
	}
	return found{Letter: l, header: m.Header, body: m.Data}
}

// origin reads where a message came from: off the letter's subject, which is
// the one thing about a letter that is unique, or else off its headers.
func origin(m *jetstream.RawStreamMsg) (name string, seq uint64) {
	if rest, ok := strings.CutPrefix(m.Subject, "dlq."); ok {
		if name, digits, ok := strings.Cut(rest, "."); ok {
			if seq, err := strconv.ParseUint(digits, 10, 64); err == nil {
				return name, seq
			}
		}
	}
	seq, err := strconv.ParseUint(m.Header.Get(stream.HeaderSeq), 10, 64)
	if err != nil {
		return "", 0
	}
	return m.Header.Get(stream.HeaderStream), seq
}

func originID(name string, seq uint64) string { return name + "/" + strconv.FormatUint(seq, 10) }

// full returns all of the letter, without the headers that the server adds in
// its answer.
func (f found) full() LetterDetail {
	out := LetterDetail{Letter: f.Letter, Headers: map[string][]string{}, Body: string(f.body), BodyEncoding: "text"}
	for name, values := range f.header {
		switch name {
		case jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer,
			"Nats-Num-Pending", jetstream.LastSequenceHeader:
		default:
			out.Headers[name] = values
		}
	}
	if !utf8.Valid(f.body) {
		out.Body, out.BodyEncoding = base64.StdEncoding.EncodeToString(f.body), "base64"
	}
	return out
}
