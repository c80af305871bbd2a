package dlq

import (
	"strconv"
	"strings"
)

// key names a letter: by its own sequence, or by the stream and sequence of
// the message that it was.
type key struct {
	stream string // empty: seq is that of the DLQ stream
	seq    uint64
}

// parseID reads "7" and "EVENTS/123".
func parseID(id string) (key, error) {
	k, digits := key{}, id
	if name, rest, ok := strings.Cut(id, "/"); ok {
		if k.stream, digits = name, rest; !isStream(name) || len(name) > maxText {
			return key{}, badStream("id")
		}
	}
	var err error
	if k.seq, err = strconv.ParseUint(digits, 10, 64); err != nil || k.seq == 0 {
		return key{}, &Invalid{
			Field: "id",
			Code:  "id", Rule: `must be a letter's number, such as "7", or its message's stream and sequence, such as "EVENTS/123"`,
		}
	}
	return k, nil
}

// CheckID returns an Invalid for what cannot be the id of a letter.
func CheckID(id string) error {
	_, err := parseID(id)
	return err
}

// Cursor is where a selection goes on. Letters behind UpTo came after it
// began.
type Cursor struct{ After, UpTo uint64 }

// String is the form that ParseCursor reads; empty for the zero Cursor.
func (c Cursor) String() string {
	if c == (Cursor{}) {
		return ""
	}
	return strconv.FormatUint(c.After, 10) + "-" + strconv.FormatUint(c.UpTo, 10)
}

// ParseCursor reads the text of a cursor.
func ParseCursor(text string) (c Cursor, err error) {
	if text == "" {
		return c, nil
	}
	after, upTo, _ := strings.Cut(text, "-")
	c.After, err = strconv.ParseUint(after, 10, 64)
	if err == nil {
		c.UpTo, err = strconv.ParseUint(upTo, 10, 64)
	}
	if err != nil || c.After == 0 || c.UpTo < c.After {
		return Cursor{}, &Invalid{Field: "cursor", Code: "cursor", Rule: "must be the next_cursor of an answer"}
	}
	return c, nil
}
