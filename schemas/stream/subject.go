package stream

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Subjects.
const (
	EventSubjects = "events.*.*"
	DLQSubjects   = "dlq.>"
	// SourceSubjects are those of events about sources.
	SourceSubjects = "sources.>"
	// FunnelDeltas is the core NATS subject on which a projector announces
	// what it has just made durable.
	FunnelDeltas = "millrace.funnel.deltas"
	// Known is the core NATS subject on which publishers ask projectors which
	// events are known (KnownQuestion).
	Known = "millrace.known"
	// Processes is the core NATS subject on which each process says what it does.
	Processes = "millrace.processes"
)

// Slots is the number of parts that an article's hash assigns events to.
const Slots = 256

// EventSubject returns events.<stage>.<hh>, where hh is the first two hex
// digits of the article's hash.
func EventSubject(stage string, urlHash [sha256.Size]byte) string {
	return "events." + stage + "." + hex.EncodeToString(urlHash[:1])
}

// MatchesSubject tells whether an event of the stage and hash belongs on the
// subject. It does not allocate.
func MatchesSubject[S string | []byte](subject S, stage []byte, urlHash [sha256.Size]byte) bool {
	const prefix = "events."
	if len(subject) != len(prefix)+len(stage)+3 || string(subject[:len(prefix)]) != prefix {
		return false
	}
	rest := subject[len(prefix):]
	if string(rest[:len(stage)]) != string(stage) || rest[len(stage)] != '.' {
		return false
	}
	const digits = "0123456789abcdef"
	return rest[len(rest)-2] == digits[urlHash[0]>>4] && rest[len(rest)-1] == digits[urlHash[0]&15]
}

// SourceSubject returns where events of a type about sources go.
func SourceSubject(eventType string) string { return "sources." + eventType }

// DeadLetterSubject returns where a message of a stream goes when it cannot be
// processed: one subject a message, so that it can be there only once.
func DeadLetterSubject(stream string, seq uint64) string {
	return "dlq." + stream + "." + strconv.FormatUint(seq, 10)
}

// SlotSubjects returns the subjects of a slot's events, of every stage.
func SlotSubjects(slot byte) string { return "events.*." + hex.EncodeToString([]byte{slot}) }

// SubjectSlot returns the slot that a subject of the event stream names, if it
// names one. It does not allocate.
func SubjectSlot[S string | []byte](subject S) (slot byte, ok bool) {
	n := len(subject)
	if n < 3 || subject[n-3] != '.' {
		return 0, false
	}
	hi, lo := hexDigit(subject[n-2]), hexDigit(subject[n-1])
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}

// hexDigit returns the value of a lower-case hex digit, or -1.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
