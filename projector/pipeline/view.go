package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/pipeline/funnel"
	"github.com/millrace-io/millrace/projector/pipeline/store"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

const (
	// maxQuarters bounds the quarters that one batch touches, and so the funnel
	// rows it holds in memory, when a backfill comes in no order of time.
	maxQuarters = 1000
	// batchesKept bounds the memory that is kept for batches: the open one, and the
	// one being written. A sealed one is opened after that.
	batchesKept = 2
)

// view is the events table and the funnel of a slot group.
type view struct {
	group   slots.Group
	stages  event.Stages
	keys    *keystore.Store // written by Seal alone
	funnel  *funnel.View    // used by Seal alone
	durable func() uint64   // up to where batches have every effect

	batchRows, batchBytes int

	open  *batch // nil before its first message
	draft *draft // for the open batch; its memory is used again
	rec   event.Record
	free  chan *batch // batches to use again

	// What follows is used by Write and Announce alone.
	p          *Projector
	db         *store.Store
	checkpoint *groupLease
	log        *slog.Logger
	late       lateness  // not yet reported
	lateTold   time.Time // when late events were last reported
}

// begin opens an empty batch. The memory of a large one is used again only while
// there is a backlog.
func (v *view) begin(backlog bool) {
	v.open = v.used(backlog)
	if v.open == nil {
		v.open = newBatch()
	}
	if v.draft == nil || v.draft.large() && !backlog {
		v.draft = newDraft(v.stages.Names())
	}
	v.draft.reset()
	v.open.Group, v.open.draft = v.group, v.draft
}

// used returns a batch to use again, nil when there is none.
func (v *view) used(backlog bool) *batch {
	for {
		select {
		case b := <-v.free:
			if backlog || !b.large() {
				b.reset()
				return b
			}
		default:
			return nil
		}
	}
}

// keep lets a batch be used again. With the last one of a backlog its memory and
// that of those before is given back.
func (v *view) keep(b *batch) {
	if b.large() && !b.backlog() {
		for v.used(false) != nil {
		}
		return
	}
	select {
	case v.free <- b:
	default:
	}
}

// Take folds one message.
func (v *view) Take(m fold.Message) (full bool) {
	if v.open == nil {
		v.begin(m.Pending >= many)
	}
	b := v.open
	b.last = m
	if b.messages++; b.messages == many && b.backlog() {
		b.grow(min(v.batchRows, many+int(m.Pending)))
	}
	if !v.group.Owns(m.Subject) {
		return false
	}
	if stage, invalid := v.check(m); invalid != nil {
		b.reject(m, invalid)
	} else {
		b.append(m, &v.rec, stage)
	}
	return b.bytes() >= v.batchBytes || len(b.groups.quarters) >= maxQuarters
}

// check decodes a message and returns its stage's place. Whoever may publish
// on the stream may backfill.
func (v *view) check(m fold.Message) (stage int, invalid *event.Invalid) {
	r := &v.rec
	if err := event.Decode(m.Data, r); err != nil {
		return 0, err
	}
	if err := r.Validate(v.stages, time.Unix(0, m.Time), true); err != nil {
		return 0, err
	}
	if !stream.MatchesSubject(m.Subject, r.Stage, r.URLHash) {
		return 0, &event.Invalid{
			Field: "subject", Code: "subject",
			Rule: fmt.Sprintf("must be %s, as stage and url_hash say, and is %s",
				stream.EventSubject(string(r.Stage), r.URLHash), m.Subject),
		}
	}
	stage, _ = v.stages.Index(r.Stage)
	return stage, nil
}

// Seal completes the batch: without what has been counted before, and with its
// funnel rows. The digest is that of the announcement.
func (v *view) Seal(ctx context.Context, cut fold.Cut) (*batch, string, error) {
	if v.open == nil {
		v.begin(false)
	}
	b := v.open
	b.From, b.To, b.Recovered = cut.From, cut.To, cut.Recovered
	repeats, err := v.keys.Fold(b.sightings, b.From, b.To)
	if err == nil {
		b.known, err = v.keys.Known(b.To)
	}
	if err != nil {
		return nil, "", keysError(err)
	}
	b.drop(repeats)
	b.groups.sort()
	err = v.funnel.Fold(ctx, b.groups.groups, b.To, v.durable(),
		func(key contract.Key, events uint64, articles *contract.Set, seq uint64) error {
			return b.funnel.Append(key, v.group.ID, events, articles, seq)
		})
	if err != nil {
		return nil, "", err
	}
	b.cached = v.funnel.Bytes()
	var digest string
	b.parts, digest = b.announcement()
	b.byStage = slices.Clone(b.groups.byStage)
	b.draft, v.open = nil, nil
	return b, digest, nil
}

// reject makes a dead letter of a message.
func (b *batch) reject(m fold.Message, invalid *event.Invalid) {
	b.letters = append(b.letters, m.Letter(stream.Events, *invalid))
	b.refused += len(m.Data)
}
