package batches

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/parts"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// take reads one message, and removes it from the stream when what was read is durable, or
// it is a dead letter. After an error it is to be taken again.
func (r *Readers) take(ctx context.Context, st jetstream.Stream, e entry) error {
	m, err := fetch(ctx, st, e)
	if m == nil || err != nil {
		return err
	}
	err = r.read(ctx, m, e)
	if why := r.letter(err, e.tries); why != nil {
		r.log.Warn("a message about a batch is a dead letter", "subject", m.subject, "sequence", e.seq,
			"code", why.Code, "field", why.Field, "rule", why.Rule)
		err = deadletter.Publish(ctx, r.js, []deadletter.Letter{{
			Stream: stream.Batches, Subject: m.subject, Seq: e.seq, Time: m.at, Data: m.data, Reason: *why,
		}}, r.log)
	}
	if err != nil {
		return err
	}
	if err := st.DeleteMsg(ctx, e.seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("remove message %d from %s: %w", e.seq, stream.Batches, err)
	}
	return nil
}

// fetch returns a message, or nil if it was removed.
func fetch(ctx context.Context, st jetstream.Stream, e entry) (*message, error) {
	if e.message != nil {
		return e.message, nil
	}
	m, err := st.GetMsg(ctx, e.seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fetch message %d of %s: %w", e.seq, stream.Batches, err)
	}
	return &message{m.Subject, m.Time, m.Data}, nil
}

// read reads the batch that a message announces, and publishes what was read.
func (r *Readers) read(ctx context.Context, m *message, e entry) error {
	a, broken := schema.ReadAnnouncement(m.data)
	if e.tries == nil {
		r.metrics.received(a, broken)
	}
	if broken != nil {
		return &broken[0]
	}
	if a.Format == schema.Notification && len(a.Records) != 1 {
		return r.split(ctx, m.subject, e.seq, a.Records)
	}
	read := &schema.Read{About: a, AnnouncedAt: m.at}
	items := make([][]byte, len(a.Items))
	if a.Format == schema.Inline {
		for i, text := range a.Items {
			items[i] = text
		}
		read.Hash = hashOf(items)
	} else {
		began := time.Now()
		content, metadata, err := objects.ReadWithMetadata(ctx, r.deps.Storage, a.Object)
		if err != nil {
			return err
		}
		if a.Format == schema.Notification {
			if broken := a.Describe(metadata, r.cfg.Keys); broken != nil {
				return &broken[0]
			}
			read.About = a
		}
		r.metrics.fetched(a.Platform, time.Since(began))
		if len(content) > largeContent {
			select {
			case r.large <- struct{}{}:
				defer func() { <-r.large }()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if items, err = schema.Split(content); err != nil {
			return &item.Invalid{Code: "too_many_items", Rule: err.Error()}
		}
		read.Hash = sha256.Sum256(content)
	}
	read.Items = make([]schema.Item, len(items))
	for i, text := range items {
		read.Items[i] = schema.Item{Outcome: schema.ReadItem(text), Content: text}
	}
	form, err := read.Append(nil)
	if err != nil {
		return err
	}
	return parts.Publish(ctx, r.js, stream.BatchesReadSubject, form)
}

// split publishes a notification for each of several objects, so that each has an outcome of its
// own. Doing so again changes nothing.
func (r *Readers) split(ctx context.Context, subject string, seq uint64, records []json.RawMessage) error {
	for i, record := range records {
		_, err := r.js.Publish(ctx, subject, schema.Alone(record), jetstream.WithMsgID(fmt.Sprintf("split/%d/%d", seq, i)))
		if err != nil {
			return fmt.Errorf("split the notification %d into one for each object: %w", seq, err)
		}
	}
	return nil
}

// hashOf is the hash of inline items, as an object would have that holds them as JSON lines.
func hashOf(items [][]byte) (hash [sha256.Size]byte) {
	sum := sha256.New()
	for _, text := range items {
		sum.Write(append(text[:len(text):len(text)], '\n'))
	}
	sum.Sum(hash[:0])
	return hash
}

// letter returns the reason for which a message is a dead letter after an error, or nil if
// it is to be taken again.
func (r *Readers) letter(err error, before *tries) *item.Invalid {
	var broken *item.Invalid
	patient := before == nil || time.Since(before.first) < r.cfg.Patience
	reason := func(code string) *item.Invalid { return &item.Invalid{Code: code, Rule: err.Error()} }
	switch {
	case errors.As(err, &broken):
		return broken
	case errors.Is(err, objects.ErrTooLarge):
		return reason("object_too_large")
	case errors.Is(err, objects.ErrDamaged):
		return reason("object_damaged")
	case errors.Is(err, objects.ErrMissing) && !patient:
		return reason("object_missing")
	case errors.Is(err, objects.ErrChanged) && !patient:
		return reason("object_changing")
	}
	return nil
}
