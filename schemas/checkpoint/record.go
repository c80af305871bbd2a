// Package checkpoint has the form in which the bucket of checkpoints holds the
// positions of folds.
package checkpoint

import (
	"encoding/json"
	"fmt"
	"time"
)

// Record is the position of a fold, and who holds its lease. Everything up to From has
// every effect. The batch (From, To], if To is larger, has been decided and may have
// some effects. V is what the view keeps beside its position: a struct whose JSON
// members have other names than those of Record.
type Record[V any] struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Owner string `json:"owner"`
	// CaughtUp is the sequence up to which, as the broker said, nothing
	// behind From was for this fold. It tells readers how current a view is,
	// and is no position: 0 when it is not known.
	CaughtUp uint64    `json:"caught_up,omitempty"`
	At       time.Time `json:"at"` // when it was written, by the owner's clock
	// Closing says that the fold is to end where its epoch ends. It stays so.
	Closing bool `json:"closing,omitempty"`
	// Digest is that of the decided batch. By it readers tell what the fold announces
	// of the batch from what others publish.
	Digest string `json:"delta,omitempty"`
	View   V      `json:"-"` // beside the others
}

// plain is a record as it is written, but for its view. closing is that of a fold that
// ends: its To is text, so that programs which know of no end refuse it.
type (
	plain[V any]   Record[V]
	closing[V any] struct {
		*plain[V]
		To uint64 `json:"to,string"`
	}
)

// MarshalJSON writes the record.
func (r Record[V]) MarshalJSON() ([]byte, error) {
	var form any = (*plain[V])(&r)
	if r.Closing {
		form = closing[V]{(*plain[V])(&r), r.To}
	}
	value, err := json.Marshal(form)
	if err != nil {
		return nil, err
	}
	view, err := json.Marshal(r.View)
	if err != nil || string(view) == "{}" {
		return value, err
	}
	value[len(value)-1] = ','
	return append(value, view[1:]...), nil
}

// UnmarshalJSON reads a record, without the checks of Parse.
func (r *Record[V]) UnmarshalJSON(value []byte) error {
	var form struct{ Closing bool }
	if err := json.Unmarshal(value, &form); err != nil {
		return err
	}
	var err error
	if end := (closing[V]{plain: (*plain[V])(r)}); form.Closing {
		err = json.Unmarshal(value, &end)
		r.To = end.To
	} else {
		err = json.Unmarshal(value, end.plain)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(value, &r.View)
}

// Parse reads a record as the bucket has it. A view that has a method Check must agree
// to the position.
func Parse[V any](value []byte) (r Record[V], err error) {
	if err := json.Unmarshal(value, &r); err != nil {
		return r, fmt.Errorf("%.100q is no checkpoint: %w", value, err)
	}
	var present struct{ From, To *json.RawMessage }
	if err := json.Unmarshal(value, &present); err != nil || present.From == nil || present.To == nil {
		return r, fmt.Errorf("%.100q is no checkpoint: it has no from or no to", value)
	}
	if r.To < r.From {
		return r, fmt.Errorf("%.100q is no checkpoint: it ends before it begins", value)
	}
	if view, ok := any(r.View).(interface{ Check(from uint64) error }); ok {
		if err := view.Check(r.From); err != nil {
			return r, fmt.Errorf("%.100q is no checkpoint: %w", value, err)
		}
	}
	return r, nil
}
