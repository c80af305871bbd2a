package lag

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// durable is what the checkpoints say of the slot groups.
type durable struct {
	layout  slots.Layout
	records map[uint32]record
}

type record struct {
	funnel.Checkpoint
	written time.Time // by the server's clock
	damage  error     // why the value is not a checkpoint
}

// readDurable reads the layout and all checkpoints, in one pass over the bucket.
func readDurable(ctx context.Context, js jetstream.JetStream) (d durable, err error) {
	kv, err := js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return d, fmt.Errorf("open bucket %s: %w", stream.Checkpoints, err)
	}
	changes, err := kv.WatchFiltered(ctx, []string{slots.Key, slots.Keys})
	if err != nil {
		return d, fmt.Errorf("read bucket %s: %w", stream.Checkpoints, err)
	}
	defer func() { err = errors.Join(err, changes.Stop()) }()
	d.records = map[uint32]record{}
	for {
		select {
		case e, open := <-changes.Updates():
			switch {
			case e == nil && open: // all that there was
				return d, d.check()
			case !open:
				return d, fmt.Errorf("read bucket %s: %w", stream.Checkpoints, jetstream.ErrConnectionClosed)
			}
			if err := d.add(e); err != nil {
				return d, err
			}
		case <-ctx.Done():
			return d, fmt.Errorf("read bucket %s: %w", stream.Checkpoints, ctx.Err())
		}
	}
}

func (d *durable) add(e jetstream.KeyValueEntry) (err error) {
	if e.Key() == slots.Key {
		d.layout, err = slots.Parse(e.Value())
		return err
	}
	if id, ok := slots.ParseKey(e.Key()); ok {
		r := record{written: e.Created(), damage: errDeleted}
		if e.Operation() == jetstream.KeyValuePut {
			r.Checkpoint, r.damage = funnel.ParseCheckpoint(e.Value())
		}
		d.records[id] = r
	}
	return nil
}

var errDeleted = errors.New("it was deleted")

func (d *durable) check() error {
	if len(d.layout.Epochs) == 0 {
		return errors.New("the layout of slot groups is not written yet: no projector has run")
	}
	return nil
}

// open returns the groups that have something to fold, or may get something.
func (d *durable) open() (groups []slots.Group) {
	return append(d.layout.Left(d.progress), d.layout.Current()...)
}

func (d *durable) progress(group uint32) (uint64, bool) {
	r, known := d.records[group]
	return max(r.From, r.CaughtUp), known && r.damage == nil
}

// positions returns those of the groups, but for groups whose checkpoint is damaged: how
// far these are is not known.
func (d *durable) positions(groups []slots.Group) []Position {
	var all []Position
	for _, g := range groups {
		if d.records[g.ID].damage == nil {
			all = append(all, Position{g, d.layout.Reached(g, d.progress)})
		}
	}
	return all
}
