package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// batchesKey is where the bucket of checkpoints has the position of the fold of batches.
const batchesKey = "batches"

// position is the bounds of a checkpoint.
type position = checkpoint.Record[struct{}]

// value reads a key of the bucket of checkpoints; nil: there is none.
func (s *saver) value(ctx context.Context, key string) (json.RawMessage, error) {
	kv, err := s.js.KeyValue(ctx, stream.Checkpoints)
	if err == nil {
		var e jetstream.KeyValueEntry
		if e, err = kv.Get(ctx, key); err == nil {
			return e.Value(), nil
		}
	}
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	return nil, fmt.Errorf("read %s of the bucket %s: %w", key, stream.Checkpoints, err)
}

// readRecord keeps the present value of a key for the set.
func (s *saver) readRecord(ctx context.Context, key string) error {
	value, err := s.value(ctx, key)
	if err != nil {
		return err
	}
	delete(s.info.Records, key)
	if value != nil {
		s.info.Records[key] = value
	}
	return nil
}

// record is the position that the set has of a fold; the zero value: it has not begun.
func (s *saver) record(key string) (position, error) { return parse(key, s.info.Records[key]) }

func parse(key string, value json.RawMessage) (p position, err error) {
	if value == nil {
		return p, nil
	}
	if p, err = checkpoint.Parse[struct{}](value); err != nil {
		return p, fmt.Errorf("checkpoint %s: %w", key, err)
	}
	return p, nil
}

// readLayout keeps the layout of slot groups for the set.
func (s *saver) readLayout(ctx context.Context) error {
	if err := s.readRecord(ctx, slots.Key); err != nil {
		return err
	}
	l, err := s.layout()
	if err == nil && l.Next > 0 {
		return fmt.Errorf("back up: %w: take the backup when \"millrace regroup\" has ended", slots.ErrUnderWay)
	}
	return err
}

// layout is that of the set; without epochs: nobody has folded yet.
func (s *saver) layout() (slots.Layout, error) {
	value := s.info.Records[slots.Key]
	if value == nil {
		return slots.Layout{}, nil
	}
	return slots.Parse(value)
}

// checkLayout returns an error when the slot groups have changed since the layout was read.
func (s *saver) checkLayout(ctx context.Context) error {
	now, err := s.value(ctx, slots.Key)
	if err == nil && !bytes.Equal(compact(now), compact(s.info.Records[slots.Key])) {
		return errors.New("the slot groups were changed while the backup was taken: take it again")
	}
	return err
}

// compact is a value without the blanks that the manifest has in it.
func compact(value json.RawMessage) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		return value // it is compared as it is
	}
	return b.Bytes()
}

// checkPurged returns an error when a stream was purged beyond the position of a fold (7).
func (s *saver) checkPurged(ctx context.Context) error {
	batches, err := s.record(batchesKey)
	if err != nil {
		return err
	}
	if err := s.purged(ctx, stream.BatchesRead, batches.From); err != nil {
		return err
	}
	l, err := s.layout()
	if err != nil || len(l.Epochs) == 0 {
		return err
	}
	for _, g := range l.Current() {
		r, err := s.record(g.Key())
		if err != nil {
			return err
		}
		if err := s.purged(ctx, stream.Events, max(r.From, r.CaughtUp, g.After)); err != nil {
			return err
		}
	}
	return nil
}
