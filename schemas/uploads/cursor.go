package uploads

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/schemas/instant"
)

// MaxRows is how many rows a job may have, rejected ones included.
const MaxRows = 1<<31 - 2

// ItemID is the id of an item: its job, and the number of its row.
func ItemID(job string, row int64) string { return job + "-" + strconv.FormatInt(row, 10) }

// ParseItemID is the reverse.
func ParseItemID(id string) (job string, row int64, ok bool) {
	at := strings.LastIndexByte(id, '-')
	if at < 0 {
		return "", 0, false
	}
	row, err := strconv.ParseInt(id[at+1:], 10, 64)
	if err != nil || row < 1 || row > MaxRows || strconv.FormatInt(row, 10) != id[at+1:] {
		return "", 0, false
	}
	return id[:at], row, true
}

// Cursor is the place of an item in a list: behind all that changed before At, and behind the items with
// smaller numbers that changed then. In a list by row number, At is zero.
type Cursor struct {
	At  time.Time
	Job string
	Row int64
}

// Encode returns "updated_at|id" in base64.
func (c Cursor) Encode() string {
	at := ""
	if !c.At.IsZero() {
		at = c.At.UTC().Format(time.RFC3339Nano)
	}
	return base64.URLEncoding.EncodeToString([]byte(at + "|" + ItemID(c.Job, c.Row)))
}

// DecodeCursor is the reverse. It takes any time zone, and base64 of either alphabet.
func DecodeCursor(text string) (c Cursor, ok bool) {
	text = strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(text, "="))
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return c, false
	}
	at, id, _ := strings.Cut(string(raw), "|")
	if at != "" {
		if c.At, err = instant.Parse(at); err != nil || c.At.Year() < 2000 {
			return c, false
		}
	}
	c.Job, c.Row, ok = ParseItemID(id)
	return c, ok
}
