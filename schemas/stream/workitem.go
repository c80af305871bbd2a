package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// WorkItem is the body of a message of Work: an item that is ready.
type WorkItem struct {
	ID         int64     `json:"id"`
	Filename   string    `json:"filename"`
	Shard      int       `json:"shard"`
	Stage      string    `json:"stage"`
	Generation int32     `json:"generation"` // names this readiness of the item
	Attempts   int32     `json:"attempts"`   // how often it was started before
	CreatedAt  time.Time `json:"created_at"`
}

// ParseWorkItem reads the body of a message of Work.
func ParseWorkItem(data []byte) (WorkItem, error) {
	var it WorkItem
	if err := json.Unmarshal(data, &it); err != nil {
		return it, fmt.Errorf("work item: %w", err)
	}
	if it.ID <= 0 || it.Generation <= 0 || it.Filename == "" || it.Shard < 0 || it.Stage == "" {
		return it, errors.New("work item: id, generation, filename, shard or stage is missing")
	}
	return it, nil
}

// MoveKind is what a client says has happened to an item.
type MoveKind uint8

// The kinds of moves.
const (
	MoveStart   MoveKind = iota // it takes the item, for the length of the lease
	MoveDone                    // worked
	MoveFail                    // failed for good
	MoveAgain                   // tried in vain: to be tried again after the delay
	MoveRelease                 // given back, without an attempt
	MoveExtend                  // still at work: the lease starts anew
	moveKinds
)

// WorkMoveBatch is a request on WorkMoves.
type WorkMoveBatch struct {
	Worker string        `json:"worker"`
	Stage  string        `json:"stage"`
	Lease  time.Duration `json:"lease"` // of what starts or is extended, in nanoseconds
	Moves  []WorkMove    `json:"moves"`
}

// WorkMove is one move. Generation is that of the message with MoveStart, and
// that of the answer to it with all others.
type WorkMove struct {
	Kind       MoveKind      `json:"k"`
	ID         int64         `json:"i"`
	Generation int32         `json:"g"`
	Delay      time.Duration `json:"d,omitempty"`
	Error      string        `json:"e,omitempty"`
}

// MaxWorkMoves is the number of moves that a request may hold.
const MaxWorkMoves = 1000

// ParseWorkMoves reads a request on WorkMoves.
func ParseWorkMoves(data []byte) (WorkMoveBatch, error) {
	var b WorkMoveBatch
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("moves: %w", err)
	}
	return b, b.check()
}

func (b *WorkMoveBatch) check() error {
	switch {
	case b.Worker == "" || len(b.Worker) > 200:
		return errors.New("moves: worker has to be of 1 to 200 bytes")
	case b.Worker == PlainWorker:
		return fmt.Errorf("moves: worker %q stands for those without a name", PlainWorker)
	case len(b.Moves) == 0 || len(b.Moves) > MaxWorkMoves:
		return fmt.Errorf("moves: %d moves, not within 1 and %d", len(b.Moves), MaxWorkMoves)
	}
	for _, m := range b.Moves {
		switch {
		case m.Kind >= moveKinds:
			return fmt.Errorf("moves: there is no move %d", m.Kind)
		case m.ID <= 0 || m.Generation <= 0:
			return errors.New("moves: id and generation have to be positive")
		case m.Delay < 0:
			return errors.New("moves: delay must not be negative")
		}
	}
	return nil
}

// PlainWorker is who has an item that a daemon took without telling: one that
// pulls and acknowledges, and no more.
const PlainWorker = "nats"

// Verdict is what became of a move.
type Verdict uint8

// The verdicts.
const (
	VerdictMade   Verdict = iota // now or before
	VerdictGone                  // the item has gone on, or is in other hands
	VerdictPaused                // the stage hands nothing out
	VerdictFull                  // as many items as the stage allows are out
)

// WorkVerdicts answers a WorkMoveBatch, when what it says is durable: a verdict
// for each move, or an error and nothing was changed.
type WorkVerdicts struct {
	Verdicts []WorkVerdict `json:"verdicts,omitempty"`
	Error    string        `json:"error,omitempty"`
	Refused  bool          `json:"refused,omitempty"` // the same request will never do
}

// WorkVerdict is one verdict. With VerdictMade on MoveStart, Generation is
// what later moves have to name.
type WorkVerdict struct {
	Verdict    Verdict `json:"v"`
	Generation int32   `json:"g,omitempty"`
	Attempts   int32   `json:"a,omitempty"`
}
