package handout

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Whereabouts is what has become of an item that is taken out of its queue.
type Whereabouts int

// The whereabouts.
const (
	Absent Whereabouts = iota // neither announced nor to be: that, or an answer about it, is under way
	Free                      // it was there, and is out
	Held                      // a daemon has it, or may have
)

//go:embed sequence.sql
var sqlSequence string

// Withdraw takes the message of one item off the stream, or its entry out of
// the outbox, unless a daemon may have it.
func (h *Handout) Withdraw(ctx context.Context, name string, r queue.Ref) (Whereabouts, error) {
	found, err := h.withdraw(ctx, name, r)
	if err != nil {
		return found, fmt.Errorf("take item %d out of the queue %s: %w", r.Item, name, err)
	}
	return found, nil
}

func (h *Handout) withdraw(ctx context.Context, name string, r queue.Ref) (Whereabouts, error) {
	tag, err := h.store.Pool().Exec(ctx, `DELETE FROM millrace.outbox
		WHERE stage = $1 AND priority = ANY ('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) AND item_id = $2 AND generation = $3`,
		r.Queue, r.Item, r.Generation)
	if err != nil {
		return Absent, err
	}
	if tag.RowsAffected() > 0 {
		return Free, nil
	}
	seq, at, err := h.sequence(ctx, name, r)
	if err != nil {
		return Absent, err
	}
	if seq == 0 {
		return h.delayed(ctx, r)
	}
	// If the consumer has passed the message while it was there, a daemon has it.
	// If it passes the message between the two looks, either may be the case.
	if at >= seq {
		return Held, nil
	}
	if err := Remove(ctx, h.js, seq); err != nil {
		if errors.Is(err, errNotYet) {
			return Absent, nil
		}
		return Absent, err
	}
	if _, at, err = h.passed(ctx, name); err != nil || at >= seq {
		return Held, err
	}
	return Free, nil
}

// delayed tells of an item that was never announced: it is free while its delay
// goes on.
func (h *Handout) delayed(ctx context.Context, r queue.Ref) (Whereabouts, error) {
	var delayed bool
	err := h.store.Pool().QueryRow(ctx,
		"SELECT EXISTS (SELECT FROM millrace.delayed WHERE item_id = $1 AND stage = $2 AND generation = $3)",
		r.Item, r.Queue, r.Generation).Scan(&delayed)
	if err != nil || !delayed {
		return Absent, err
	}
	return Free, nil
}

// passed returns the sequences up to which all messages of a queue are gone, and up to
// which they have been handed out.
func (h *Handout) passed(ctx context.Context, name string) (floor, at uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	c, err := h.js.Consumer(ctx, stream.Work, name)
	if err != nil {
		return 0, 0, err
	}
	info := c.CachedInfo()
	return info.AckFloor.Stream, info.Delivered.Stream, nil
}

// Remove takes a message off the work stream. One that is gone is fine.
func Remove(ctx context.Context, js jetstream.JetStream, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	st, err := js.Stream(ctx, stream.Work)
	if err == nil && st.CachedInfo().State.LastSeq < seq {
		err = errNotYet
	}
	if err == nil {
		err = st.DeleteMsg(ctx, seq)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("remove message %d of %s: %w", seq, stream.Work, err)
	}
	return nil
}

// errNotYet is the error of a message that is still to be published.
var errNotYet = errors.New("it is not published yet")

// gone tells whether a message could not be removed because it had been. The
// library keeps the text of the server's answer alone. A message that lies beyond
// the end of the stream may still come, and is not gone.
func gone(err error) bool {
	if !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return errors.Is(err, jetstream.ErrMsgNotFound)
	}
	text := err.Error()
	return slices.ContainsFunc([]string{"err_code=10043", "no message found", "deleted message"}, func(s string) bool {
		return strings.Contains(text, s)
	})
}

// Reorder has items whose priority has changed handed out in their new place:
// it takes their messages off the stream and has them announced again. Items
// that daemons have stay with them.
func (h *Handout) Reorder(ctx context.Context, name string, refs []queue.Ref) error {
	for _, r := range refs {
		found, err := h.Withdraw(ctx, name, r)
		if err != nil {
			return err
		}
		if found != Free {
			continue // what is missing is announced by mending
		}
		if err := h.store.Reannounce(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
