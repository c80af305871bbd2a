package item

// Status is where an item is in its queue.
type Status int16

// The statuses.
const (
	New Status = iota
	Started
	Done
	Failed
)

var statusNames = [...]string{"new", "started", "done", "failed"}

func (s Status) String() string { return statusNames[s] }

// ParseStatus finds a status by its name.
func ParseStatus(name string) (Status, bool) {
	for i, n := range statusNames {
		if n == name {
			return Status(i), true
		}
	}
	return 0, false
}

// Move is what is asked to happen to an item.
type Move int16

// The moves.
const (
	Start    Move = iota // new → started
	Complete             // started → done
	Fail                 // new, started → failed
	Retry                // failed → new
	Release              // started → new, given back: the attempt does not count
	Again                // started → new, tried in vain; failed when no attempt is left
	Expire               // as Again, by the end of a lease
	Cancel               // new, started → failed, for good
	Register             // the item comes to be
)

var moveNames = [...]string{"start", "done", "fail", "retry", "release", "again", "expire", "cancel", "register"}

// String is the move's name in paths and in the history.
func (m Move) String() string { return moveNames[m] }
