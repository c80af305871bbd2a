package batches

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/parts"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// attempt takes one message. After an error it is to be taken again.
func (r *Readers) attempt(ctx context.Context, st jetstream.Stream, e entry, on *stages) result {
	m, err := fetch(ctx, r.js, st, e)
	if m == nil || err != nil {
		return result{e, ctx, err}
	}
	ctx, span := r.trace(ctx, m, e.seq)
	err = r.take(ctx, m, e, on)
	end(span, err)
	return result{e, ctx, err}
}

// take reads one message, and hands on what is to be published of it; where nothing is, what is
// to be removed.
func (r *Readers) take(ctx context.Context, m *message, e entry, on *stages) error {
	value, err := r.read(ctx, m, e)
	if why := r.letter(err, e.tries); why != nil {
		trace.SpanFromContext(ctx).SetStatus(codes.Error, why.Rule)
		r.log.WarnContext(ctx, "a message about a batch is a dead letter", "subject", m.subject, "sequence", e.seq,
			"code", why.Code, "field", why.Field, "rule", why.Rule)
		err = deadletter.Publish(ctx, r.js, []deadletter.Letter{{
			Stream: stream.Batches, Subject: m.subject, Seq: e.seq, Time: m.at, Data: m.data, Reason: *why,
		}}, r.log)
	}
	switch {
	case err != nil:
		return err
	case value == nil:
		return on.finish(ctx, e.seq)
	}
	e.message = nil
	traceValue(ctx, value)
	return on.publish(ctx, done{e, ctx, value})
}

// fetch returns a message, or nil if it was removed.
func fetch(ctx context.Context, js jetstream.JetStream, st jetstream.Stream, e entry) (*message, error) {
	if e.message != nil {
		return e.message, nil
	}
	m, err := stream.Get(ctx, js, st, e.seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fetch message %d of %s: %w", e.seq, stream.Batches, err)
	}
	return newMessage(m.Subject, m.Time, m.Header, m.Data), nil
}

// read reads the batch that a message announces, and returns what is to be published of it; nil:
// nothing.
func (r *Readers) read(ctx context.Context, m *message, e entry) (parts.Value, error) {
	if e.tries == nil {
		r.metrics.received(m.about, m.broken)
	}
	read := &schema.Read{About: m.about, AnnouncedAt: m.at}
	switch a := &m.about; {
	case m.broken != nil:
		return nil, &m.broken[0]
	case a.Format == schema.Notification && len(a.Records) != 1:
		return nil, r.split(ctx, m.subject, e.seq, a.Records)
	case a.Format == schema.Inline:
		for _, text := range a.Items {
			read.Items = append(read.Items, schema.Item{Outcome: schema.ReadItem(text), Content: text})
		}
		read.Hash = hashOf(a.Items)
		return r.cut(read)
	}
	content, err := r.object(ctx, &read.About)
	if err != nil {
		return nil, err
	}
	if len(content) > largeContent {
		select {
		case r.large <- struct{}{}:
			defer func() { <-r.large }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if read.Items, err = schema.ReadItems(content); err != nil {
		return nil, &item.Invalid{Code: "too_many_items", Rule: err.Error()}
	}
	read.Hash = sha256.Sum256(content)
	return r.cut(read)
}

// object returns the content of a batch's object, which may complete what is said of the batch.
func (r *Readers) object(ctx context.Context, a *schema.Announcement) ([]byte, error) {
	began := time.Now()
	content, metadata, err := objects.Read(ctx, r.deps.Storage, a.Object)
	if err != nil {
		return nil, err
	}
	if a.Format == schema.Notification {
		if broken := a.Describe(metadata, r.cfg.Keys); broken != nil {
			return nil, &broken[0]
		}
	}
	r.metrics.fetched(a.Platform, time.Since(began))
	return content, nil
}

// cut returns what was read as it is published.
func (r *Readers) cut(read *schema.Read) (parts.Value, error) {
	form, err := read.Append(nil)
	if err != nil {
		return nil, err
	}
	return parts.Cut(r.js, stream.BatchesReadSubject, form)
}

// split publishes a notification for each of several objects, so that each has an outcome of its
// own. Doing so again changes nothing.
func (r *Readers) split(ctx context.Context, subject string, seq uint64, records []json.RawMessage) error {
	for i, record := range records {
		_, err := r.js.PublishMsg(ctx, traced(ctx, subject, schema.Alone(record)),
			jetstream.WithMsgID(fmt.Sprintf("split/%d/%d", seq, i)))
		if err != nil {
			return fmt.Errorf("split the notification %d into one for each object: %w", seq, err)
		}
	}
	return nil
}

// hashOf is the hash of inline items, as an object would have that holds them as JSON lines.
func hashOf(items []json.RawMessage) (hash [sha256.Size]byte) {
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
