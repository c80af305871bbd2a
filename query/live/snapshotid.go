package live

import (
	"strconv"
	"strings"
)

// snapshotID names a snapshot. Its epoch is that of a feed; or, of a subscription
// that counts by itself, the feed's with how far its count is behind: snapshot
// 3 of epoch "x+16" is the feed's snapshot 19 of epoch "x".
type snapshotID struct {
	epoch string
	seq   uint64
}

// snapshotIDOf returns the id of a feed's snapshot in a count that is behind
// by base.
func snapshotIDOf(epoch string, seq, base uint64) snapshotID {
	if base > 0 {
		epoch += "+" + strconv.FormatUint(base, 10)
	}
	return snapshotID{epoch, seq - base}
}

// in returns the snapshot that an id names among those of a feed, which has
// come to snapshot newest, and by how much its count is behind. It returns false
// for an id of another epoch, and for one beyond the newest.
func (p snapshotID) in(epoch string, newest uint64) (seq, base uint64, ok bool) {
	rest, ours := strings.CutPrefix(p.epoch, epoch)
	if !ours {
		return 0, 0, false
	}
	if rest != "" {
		number, counted := strings.CutPrefix(rest, "+")
		n, err := strconv.ParseUint(number, 10, 64)
		if !counted || err != nil {
			return 0, 0, false
		}
		base = n
	}
	if base > newest || p.seq > newest-base {
		return 0, 0, false
	}
	return base + p.seq, base, true
}

// eventID is the text of it, as the id of a server-sent event.
func (p snapshotID) eventID() string { return p.epoch + ":" + strconv.FormatUint(p.seq, 10) }

// parseEventID reads the id of the last event that a reader has had. A text that
// is none names no snapshot. Event streams never count by themselves.
func parseEventID(text string) *snapshotID {
	var p snapshotID
	epoch, number, _ := strings.Cut(text, ":")
	if seq, err := strconv.ParseUint(number, 10, 64); err == nil {
		p = snapshotID{epoch, seq}
	}
	return &p
}
