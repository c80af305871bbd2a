package batches

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/internal/parts"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// Bounds of what is stored at once.
const (
	maxRows  = 200_000
	maxBytes = 32 << 20 // of what was read
)

// entry is what was read of one batch, or of an item that was tried again.
type entry struct {
	read     *schema.Read
	seq      uint64    // of its last message
	at       time.Time // when the stream received it
	ok       int
	retrying int  // errors that are tried again
	counts   bool // it is the content that counts; set when it is stored
	isStored bool // an outcome of a retry that is stored by another message; set then
}

// cut is what is stored at once.
type cut struct {
	fold.Cut
	entries []*entry // of batches
	retries []*entry // of items that were tried again
	letters []deadletter.Letter
}

// view collects what was read. It keeps nothing of what is stored.
type view struct {
	*sink
	joiner      parts.Joiner
	open        cut
	rows, bytes int
}

// Take implements fold.View.
func (v *view) Take(m fold.Message) (full bool) {
	value, err := v.joiner.Take(m.Data)
	var read *schema.Read
	if value != nil { // also after parts of another one, which are the error
		var wrong error
		read, wrong = schema.ParseRead(value)
		err = errors.Join(err, wrong)
	}
	at := time.Unix(0, m.Time).UTC()
	if err != nil {
		v.open.letters = append(v.open.letters, m.Letter(stream.BatchesRead,
			item.Invalid{Code: "batch_read", Rule: "must be what Millrace has read of a batch: " + err.Error()}))
	}
	if read == nil {
		return false
	}
	e := &entry{read: read, seq: m.Seq, at: at}
	if read.Retry != nil {
		v.open.retries = append(v.open.retries, e)
	} else {
		e.count()
		v.open.entries = append(v.open.entries, e)
	}
	v.rows += len(read.Items)
	v.bytes += len(value)
	return v.rows >= maxRows || v.bytes >= maxBytes
}

// count counts the items.
func (e *entry) count() {
	for i := range e.read.Items {
		item := &e.read.Items[i]
		if item.OK() {
			e.ok++
		} else if _, again := item.Category.Retry(); again {
			e.retrying++
		}
	}
}

// Inside implements fold.Parted.
func (v *view) Inside() bool { return !v.joiner.Whole() }

// Seal implements fold.View.
func (v *view) Seal(_ context.Context, at fold.Cut) (*cut, string, error) {
	sealed := v.open
	sealed.Cut = at
	v.open, v.rows, v.bytes = cut{}, 0, 0
	return &sealed, "", nil
}

// Write implements fold.View.
func (v *view) Write(ctx context.Context, c *cut) error {
	if len(c.letters) > 0 {
		if err := deadletter.Publish(ctx, v.service.js, c.letters, v.service.log); err != nil {
			return err
		}
		v.service.log.Error("messages are not what was read of batches, and are dead letters", "stream", stream.BatchesRead,
			"messages", len(c.letters), "rule", c.letters[0].Reason.Rule)
	}
	if len(c.entries)+len(c.retries) == 0 {
		return nil
	}
	conflicts, err := v.judge(ctx, c.entries)
	if err != nil {
		return err
	}
	if err := v.insert(ctx, c); err != nil {
		return err
	}
	return v.writeRows(ctx, c.entries, conflicts)
}

// Announce implements fold.View.
func (v *view) Announce(_ context.Context, c *cut, _ time.Duration) {
	for _, e := range c.entries {
		if e.counts {
			v.service.metrics.observe(e, time.Since(e.read.AnnouncedAt).Seconds())
		}
	}
	for _, e := range c.retries {
		if !e.isStored {
			v.service.metrics.observeRetry(e)
		}
	}
}
