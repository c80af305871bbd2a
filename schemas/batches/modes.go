package batches

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// Modes say which messages are taken now. Those that are not wait until they are.
type Modes struct {
	New, Legacy bool
	// NewShare is the share of jobs, from 0 to 1, whose data.collected events are taken
	// while New is on. A job is in every share that is larger than the first it is in.
	NewShare float64
}

// Take tells whether a message is taken. Every process answers the same. Notifications are
// taken while New is on, whatever the share. Inline items have no mode that could be off.
func (m Modes) Take(a Announcement) bool {
	switch a.Format {
	case Event:
		return m.New && inShare(a.Batch.Job, m.NewShare)
	case Notification: // whose job only the object says
		return m.New
	case Legacy:
		return m.Legacy
	}
	return true
}

func inShare(job string, share float64) bool {
	sum := sha256.Sum256([]byte(job))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) < share*(math.MaxUint64>>11+1)
}
