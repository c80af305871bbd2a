package stream

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// WorkAnswer is what a daemon answered to a message of Work.
type WorkAnswer struct {
	Consumer   string
	Seq        uint64 // of the message
	Deliveries int    // of the message, up to the one that is answered; 0: whichever was the last
	Kind       WorkAnswerKind
	Delay      time.Duration // with AnswerNak
	Reason     string        // with AnswerTerm
}

// WorkAnswerKind is a kind of answer.
type WorkAnswerKind uint8

// The kinds of answers.
const (
	AnswerAck     WorkAnswerKind = iota
	AnswerSettled                // an empty acknowledgement: the outcome is told elsewhere
	AnswerRefused                // see Refused: nobody has the item
	AnswerNak
	AnswerTerm
	AnswerProgress
	AnswerKept // Millrace has had the server wait longer; see KeepSubject
	AnswerDead // none: the server has given up delivering it
)

// Progress has the server wait for an answer anew.
var Progress = []byte("+WPI")

// KeepSubject returns where Millrace says Progress by itself, and AnswerSubject where it
// passes on what a worker has told it of a message. The server reads the sequence alone;
// the time in its place is none that a message was delivered at.
func KeepSubject(consumer string, seq uint64) string { return answerSubject(consumer, seq, keptAt) }

// AnswerSubject is described at KeepSubject.
func AnswerSubject(consumer string, seq uint64) string { return answerSubject(consumer, seq, toldAt) }

const keptAt, toldAt = 0, 1

func answerSubject(consumer string, seq uint64, at int) string {
	return fmt.Sprintf("$JS.ACK.%s.%s.1.%d.1.%d.0", Work, consumer, seq, at)
}

// Settled is the acknowledgement of those who tell the outcome elsewhere, as
// the client does: the message has done its service when the item is taken.
// All clients of NATS say +ACK for an ordinary one.
var Settled = []byte{}

// Refused gives a message back that was handed to one who may not start its
// item now, as at a stage that is full: the server hands it out again after the
// delay. To the server it is a negative acknowledgement; the mark tells it from
// that of a daemon who has had the item.
func Refused(delay time.Duration) []byte {
	return fmt.Appendf(nil, `-NAK {"delay":%d,"refused":true}`, delay)
}

// ParseWorkAnswer reads a message of WorkAcks.
func ParseWorkAnswer(subject string, data []byte) (WorkAnswer, error) {
	if consumer, ok := strings.CutPrefix(subject, WorkDeadSubjects[:len(WorkDeadSubjects)-1]); ok {
		return parseDead(consumer, data)
	}
	rest, ok := strings.CutPrefix(subject, WorkAckSubjects[:len(WorkAckSubjects)-1])
	if !ok {
		return WorkAnswer{}, fmt.Errorf("work answer: subject %q is none", subject)
	}
	a := WorkAnswer{}
	tokens := strings.Split(rest, ".")
	if len(tokens) != 6 {
		return a, fmt.Errorf("work answer: subject %q has %d parts after the stream, not 6", subject, len(tokens))
	}
	a.Consumer = tokens[0]
	var numbers [5]uint64 // deliveries, sequences of stream and consumer, time, pending
	for i := range numbers {
		n, err := strconv.ParseUint(tokens[i+1], 10, 63)
		if err != nil {
			return a, fmt.Errorf("work answer: subject %q: %w", subject, err)
		}
		numbers[i] = n
	}
	a.Deliveries, a.Seq = int(numbers[0]), numbers[1]
	err := a.parse(data)
	if at := numbers[3]; at == keptAt || at == toldAt {
		a.Deliveries = 0
		if at == keptAt && a.Kind == AnswerProgress {
			a.Kind = AnswerKept
		}
	}
	return a, err
}

func (a *WorkAnswer) parse(data []byte) error {
	text := string(data)
	switch {
	case text == "":
		a.Kind = AnswerSettled
	case text == "+ACK", text == "+OK", strings.HasPrefix(text, "+NXT"):
		a.Kind = AnswerAck
	case text == "+WPI":
		a.Kind = AnswerProgress
	case strings.HasPrefix(text, "+TERM"):
		a.Kind, a.Reason = AnswerTerm, strings.TrimSpace(text[len("+TERM"):])
	case strings.HasPrefix(text, "-NAK"):
		a.parseNak(strings.TrimSpace(text[len("-NAK"):]))
	default:
		return fmt.Errorf("work answer: %q is none", text)
	}
	return nil
}

// parseNak reads {"delay": nanoseconds} or a duration, as the server does; it
// redelivers at once when it can't read one.
func (a *WorkAnswer) parseNak(text string) {
	a.Kind = AnswerNak
	var options struct {
		Delay   time.Duration `json:"delay"`
		Refused bool          `json:"refused"`
	}
	switch d, err := time.ParseDuration(text); {
	case err == nil:
		a.Delay = max(d, 0)
	case json.Unmarshal([]byte(text), &options) != nil:
	case options.Refused:
		a.Kind = AnswerRefused
	default:
		a.Delay = max(options.Delay, 0)
	}
}

func parseDead(consumer string, data []byte) (WorkAnswer, error) {
	var advisory struct {
		Seq        uint64 `json:"stream_seq"`
		Deliveries int    `json:"deliveries"`
	}
	if err := json.Unmarshal(data, &advisory); err != nil {
		return WorkAnswer{}, fmt.Errorf("work answer: advisory: %w", err)
	}
	return WorkAnswer{Consumer: consumer, Seq: advisory.Seq, Deliveries: advisory.Deliveries, Kind: AnswerDead}, nil
}
