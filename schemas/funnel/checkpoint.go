package funnel

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

// Checkpoint is a slot group's position in the event stream, as the bucket of
// checkpoints has it under the group's key (package slots). Everything up to From
// has every effect. The batch (From, To], if To is larger, has been decided and
// may have some effects.
type Checkpoint struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Owner string `json:"owner"`
	// CaughtUp is the sequence up to which, as the broker said, nothing
	// behind From was for this group. It tells readers how current a view is,
	// and is no position: 0 when it is not known.
	CaughtUp uint64    `json:"caught_up,omitempty"`
	At       time.Time `json:"at"` // when it was written, by the owner's clock
	// Closing says that the group is not to be folded beyond the end of its
	// epoch, which the layout has. It stays so.
	Closing bool `json:"closing,omitempty"`
	// Delta is the digest of what will be announced of the decided batch. By it
	// readers tell the projector's delta from what others publish.
	Delta string `json:"delta,omitempty"`
	// Known is what the group has counted, for key stores and ClickHouse to be compared
	// with.
	Known Known `json:"known,omitzero"`
	// Baseline is what the group's counts rest on.
	Baseline Baseline `json:"baseline,omitzero"`
}

// Baseline names the rows that a group's counts rest on. What was loaded under one
// baseline takes no delta of another: while ClickHouse was put back from a copy, say, the
// one has events that the other lacks.
type Baseline struct {
	Number uint64 `json:"number"` // another one for each baseline of the group
	// Accepted is how often an operator has accepted what ClickHouse has.
	Accepted uint64 `json:"accepted,omitempty"`
	// Missing is how many of the identities in Known ClickHouse was found to lack.
	Missing uint64 `json:"missing,omitempty"`
}

// Known is the identities that a group has counted up to a sequence, which is
// From, or lies before it. The zero value says nothing: there are none yet, or
// an older millrace wrote the checkpoint, or an operator has had it forgotten.
type Known struct {
	At         uint64            `json:"at"`
	Identities event.IdentitySum `json:"identities"`
}

// plain is a checkpoint as it is written. closing is that of a group that ends:
// its To is text, so that programs which know of no end refuse it.
type (
	plain   Checkpoint
	closing struct {
		plain
		To uint64 `json:"to,string"`
	}
)

// MarshalJSON writes the checkpoint.
func (c Checkpoint) MarshalJSON() ([]byte, error) {
	if c.Closing {
		return json.Marshal(closing{plain(c), c.To})
	}
	return json.Marshal(plain(c))
}

// UnmarshalJSON reads a checkpoint, without the checks of ParseCheckpoint.
func (c *Checkpoint) UnmarshalJSON(value []byte) error {
	var form struct{ Closing bool }
	if err := json.Unmarshal(value, &form); err != nil {
		return err
	}
	if !form.Closing {
		return json.Unmarshal(value, (*plain)(c))
	}
	var end closing
	if err := json.Unmarshal(value, &end); err != nil {
		return err
	}
	*c = Checkpoint(end.plain)
	c.To = end.To
	return nil
}

// ParseCheckpoint reads a checkpoint as the bucket has it.
func ParseCheckpoint(value []byte) (c Checkpoint, err error) {
	if err := json.Unmarshal(value, &c); err != nil {
		return c, fmt.Errorf("%.100q is no checkpoint: %w", value, err)
	}
	var present struct{ From, To *json.RawMessage }
	if err := json.Unmarshal(value, &present); err != nil || present.From == nil || present.To == nil {
		return c, fmt.Errorf("%.100q is no checkpoint: it has no from or no to", value)
	}
	if c.To < c.From {
		return c, fmt.Errorf("%.100q is no checkpoint: it ends before it begins", value)
	}
	if c.Known.At > c.From {
		return c, fmt.Errorf("%.100q is no checkpoint: it knows what lies behind its position", value)
	}
	return c, nil
}
