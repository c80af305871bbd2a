package projector

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/projector/deadletter"
	"github.com/millrace-io/millrace/projector/funnel"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/source"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// folder turns messages, in their order, into batches. It is the only writer
// of the key store and of the funnel in memory.
type folder struct {
	group    slots.Group
	stages   event.Stages
	keys     *keystore.Store
	view     *funnel.View
	durable  func() uint64 // up to where batches have every effect
	position uint64        // sequence of the last message folded
	cur      *batch
	rec      event.Record
}

// begin makes b the batch that messages are folded into.
func (f *folder) begin(b *batch) {
	b.reset()
	b.Group, b.From, b.To = f.group, f.position, f.position
	f.cur = b
}

// add folds one message.
func (f *folder) add(m source.Message) {
	b := f.cur
	f.position, b.To, b.last = m.Seq, m.Seq, m
	b.messages++
	if !f.group.Owns(m.Subject) {
		return
	}
	stage, invalid := f.check(m)
	if invalid != nil {
		b.letters = append(b.letters, deadletter.Letter{
			Stream: stream.Events, Subject: string(m.Subject), Seq: m.Seq, Time: time.Unix(0, m.Time),
			Data: bytes.Clone(m.Data), Reason: invalid, // a part of what was read with it, which is much larger
		})
		b.refused += len(m.Data)
		return
	}
	b.append(m, &f.rec, stage)
}

// check decodes a message and returns its stage's place. Whoever may publish
// on the stream may backfill.
func (f *folder) check(m source.Message) (stage int, invalid *event.Invalid) {
	r := &f.rec
	if err := event.Decode(m.Data, r); err != nil {
		return 0, err
	}
	if err := r.Validate(f.stages, time.Unix(0, m.Time), true); err != nil {
		return 0, err
	}
	if !stream.MatchesSubject(m.Subject, r.Stage, r.URLHash) {
		return 0, &event.Invalid{
			Field: "subject", Code: "subject",
			Rule: fmt.Sprintf("must be %s, as stage and url_hash say, and is %s", stream.EventSubject(string(r.Stage), r.URLHash), m.Subject),
		}
	}
	stage, _ = f.stages.Index(r.Stage)
	return stage, nil
}

// seal completes the batch: without what has been counted before, and with
// its funnel rows.
func (f *folder) seal(ctx context.Context) (*batch, error) {
	b := f.cur
	f.cur = nil
	repeated, err := f.keys.Fold(b.sightings, b.To)
	if err != nil {
		return nil, keysError(err)
	}
	b.drop(repeated)
	b.groups.sort()
	err = f.view.Fold(ctx, b.groups.groups, b.To, f.durable(),
		func(key contract.Key, events uint64, articles *contract.Set, seq uint64) error {
			return b.funnel.Append(key, f.group.ID, events, articles, seq)
		})
	if err != nil {
		return nil, err
	}
	return b, nil
}
