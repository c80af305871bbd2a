package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// WorkItem is the body of a message of Work: an item that is ready. Those of
// shards have a filename, a shard and a stage.
type WorkItem struct {
	// TraceParent is the span that registered the shard, as of a QueueItem.
	TraceParent string `json:"traceparent,omitempty"`

	ID         int64     `json:"id"`
	Filename   string    `json:"filename"`
	Shard      int       `json:"shard"`
	Stage      string    `json:"stage"`
	Generation int32     `json:"generation"` // names this readiness of the item
	Attempts   int32     `json:"attempts"`   // how often it was started before
	CreatedAt  time.Time `json:"created_at"`
}

// QueueItem is the body of a message of Work that is about an item of a user-defined
// queue.
type QueueItem struct {
	// TraceParent is the span that added the item, see WithTrace; empty where nobody traces
	// it. It comes first: ItemTrace reads it there.
	TraceParent string `json:"traceparent,omitempty"`

	ID         int64           `json:"id"`
	Queue      string          `json:"queue"`
	Generation int32           `json:"generation"`
	Attempt    int32           `json:"attempt"`  // the number of this attempt, from 1
	Attempts   int32           `json:"attempts"` // how often it was started before
	Key        string          `json:"key,omitempty"`
	Group      string          `json:"group,omitempty"`
	Priority   int16           `json:"priority"`
	Payload    json.RawMessage `json:"payload"`
	CreatedAt  time.Time       `json:"created_at"`
}

// ItemTrace returns the TraceParent of an encoded QueueItem or WorkItem, without decoding all of it.
func ItemTrace(body []byte) string {
	const before = `{"traceparent":"`
	if rest, ok := bytes.CutPrefix(body, []byte(before)); ok && len(rest) > traceParentSize && rest[traceParentSize] == '"' {
		return string(rest[:traceParentSize])
	}
	return ""
}

// ParseQueueItem reads the body of a message about an item of a user-defined
// queue.
func ParseQueueItem(data []byte) (QueueItem, error) {
	var it QueueItem
	if err := json.Unmarshal(data, &it); err != nil {
		return it, fmt.Errorf("queue item: %w", err)
	}
	if it.ID <= 0 || it.Generation <= 0 || it.Queue == "" {
		return it, errors.New("queue item: id, generation or queue is missing")
	}
	return it, nil
}

// ParseWorkItem reads the body of any message of Work.
func ParseWorkItem(data []byte) (WorkItem, error) {
	var it WorkItem
	if err := json.Unmarshal(data, &it); err != nil {
		return it, fmt.Errorf("work item: %w", err)
	}
	if it.ID <= 0 || it.Generation <= 0 || it.Shard < 0 {
		return it, errors.New("work item: id or generation is missing")
	}
	return it, nil
}

// Enqueue is a request on WorkEnqueue.
type Enqueue struct {
	Queue string        `json:"queue"`
	Items []EnqueueItem `json:"items"`
}

// EnqueueItem is an item that is to be added to a queue.
type EnqueueItem struct {
	Payload  json.RawMessage `json:"payload,omitempty"` // none: null
	Key      string          `json:"key,omitempty"`     // unique among the live items of the queue
	Group    string          `json:"group,omitempty"`
	Priority int16           `json:"priority,omitempty"` // 0 to 9
	RunAt    *time.Time      `json:"run_at,omitempty"`   // not before
}

// Enqueued answers an Enqueue, when what it says is durable: what became of each
// item, or an error and nothing was added.
type Enqueued struct {
	Items   []EnqueuedItem `json:"items,omitempty"`
	Error   string         `json:"error,omitempty"`
	Refused bool           `json:"refused,omitempty"` // the same request will never do
}

// EnqueuedItem is what became of an item that was to be added.
type EnqueuedItem struct {
	ID       int64 `json:"id"`
	Existing bool  `json:"existing,omitempty"` // a live item with its key was there before
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

// WorkMoveBatch is a request on WorkMoves: for moves, or for offers of items that
// are ready and have no message on the stream yet.
type WorkMoveBatch struct {
	Worker string        `json:"worker"`
	Stage  string        `json:"stage"`
	Lease  time.Duration `json:"lease"` // of what starts or is extended, in nanoseconds
	Moves  []WorkMove    `json:"moves,omitempty"`
	// Offers is how many items to offer, in place of moves. An offer changes nothing:
	// whoever starts the item first has it.
	Offers int `json:"offers,omitempty"`
}

// WorkMove is one move. Generation is that of the message with MoveStart, and
// that of the answer to it with all others.
type WorkMove struct {
	Kind       MoveKind      `json:"k"`
	ID         int64         `json:"i"`
	Generation int32         `json:"g"`
	Delay      time.Duration `json:"d,omitempty"`
	Error      string        `json:"e,omitempty"`
	// Backoff has MoveAgain wait as long as the queue says, if it says so, and
	// for Delay otherwise.
	Backoff bool            `json:"b,omitempty"`
	Result  json.RawMessage `json:"r,omitempty"` // with MoveDone
	Offered bool            `json:"o,omitempty"` // with MoveStart: the item was offered, and has no message
	// Progress is what the worker is at, with MoveExtend; see item.MaxProgress.
	Progress string `json:"p,omitempty"`
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
	case b.Offers < 0 || b.Offers > MaxWorkMoves || b.Offers > 0 && b.Moves != nil:
		return fmt.Errorf("moves: offers has to be within 1 and %d, and without moves", MaxWorkMoves)
	case b.Offers > 0:
		return nil
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
	VerdictGone                  // another worker holds the item, or it has ended
	VerdictPaused                // the stage hands nothing out
	VerdictFull                  // as many items as the stage allows are out
)

// WorkVerdicts answers a WorkMoveBatch, when what it says is durable: a verdict
// for each move, or an error and nothing was changed. Where offers were asked for,
// Items are bodies as messages of Work have them.
type WorkVerdicts struct {
	Verdicts []WorkVerdict     `json:"verdicts,omitempty"`
	Items    []json.RawMessage `json:"items,omitempty"`
	Error    string            `json:"error,omitempty"`
	Refused  bool              `json:"refused,omitempty"` // the same request will never do
}

// WorkVerdict is one verdict. With VerdictMade on MoveStart, Generation is
// what later moves have to name.
type WorkVerdict struct {
	Verdict    Verdict `json:"v"`
	Generation int32   `json:"g,omitempty"`
	Attempts   int32   `json:"a,omitempty"`
}
