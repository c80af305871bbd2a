package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// modesKey is where the modes are in the bucket of settings.
const modesKey = "batches.modes"

// kept is the value of the key.
type kept struct {
	Modes schema.Modes
	// Start is what the environment of the process said that began last. A process whose
	// environment says something else has been told so since, and sets the modes.
	Start schema.Modes
}

// Modes are those of an installation. They change while it runs.
type Modes struct {
	js    jetstream.JetStream
	start schema.Modes
}

// NewModes returns the modes, which begin as start says.
func NewModes(js jetstream.JetStream, start schema.Modes) (*Modes, error) {
	if start.NewShare < 0 || start.NewShare > 1 || start.NewShare != start.NewShare {
		return nil, fmt.Errorf("invalid share of the new mode %v: want a number from 0 to 1", start.NewShare)
	}
	return &Modes{js, start}, nil
}

func (m *Modes) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := m.js.KeyValue(ctx, stream.Settings)
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", stream.Settings, err)
	}
	return kv, nil
}

// read returns the value of the key, and its revision, which is 0 if there is none.
func (m *Modes) read(ctx context.Context, kv jetstream.KeyValue) (k kept, revision uint64, err error) {
	e, err := kv.Get(ctx, modesKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return kept{m.start, m.start}, 0, nil
	}
	if err != nil {
		return k, 0, fmt.Errorf("read the modes of batches: %w", err)
	}
	k, err = parseKept(e.Value())
	return k, e.Revision(), err
}

func parseKept(value []byte) (k kept, err error) {
	if err := json.Unmarshal(value, &k); err != nil {
		return k, fmt.Errorf("read the modes of batches: the key %s of the bucket %s is none: %w; delete it",
			modesKey, stream.Settings, err)
	}
	return k, nil
}

// Get returns the modes at present.
func (m *Modes) Get(ctx context.Context) (schema.Modes, error) {
	kv, err := m.bucket(ctx)
	if err != nil {
		return schema.Modes{}, err
	}
	k, _, err := m.read(ctx, kv)
	return k.Modes, err
}

// Set changes the modes, and returns them.
func (m *Modes) Set(ctx context.Context, to func(schema.Modes) schema.Modes) (schema.Modes, error) {
	return m.change(ctx, func(k kept) kept {
		k.Modes = to(k.Modes)
		return k
	})
}

// begin has the modes be as the environment says, if it says so for the first time.
func (m *Modes) begin(ctx context.Context) error {
	_, err := m.change(ctx, func(k kept) kept {
		if k.Start != m.start {
			k = kept{m.start, m.start}
		}
		return k
	})
	return err
}

// change writes what to makes of the value, unless that is the same.
func (m *Modes) change(ctx context.Context, to func(kept) kept) (schema.Modes, error) {
	kv, err := m.bucket(ctx)
	for err == nil {
		var was kept
		var revision uint64
		if was, revision, err = m.read(ctx, kv); err != nil {
			break
		}
		next := to(was)
		if next == was && revision > 0 {
			return next.Modes, nil
		}
		var value []byte
		if value, err = json.Marshal(next); err != nil {
			break
		}
		if _, err = kv.Update(ctx, modesKey, value, revision); err == nil {
			return next.Modes, nil
		}
		if errors.Is(err, jetstream.ErrKeyExists) { // somebody else has changed them
			err = nil
		}
	}
	return schema.Modes{}, fmt.Errorf("change the modes of batches: %w", err)
}

// watch calls changed with the modes at present and after each change, until it returns an
// error or ctx ends.
func (m *Modes) watch(ctx context.Context, changed func(schema.Modes) error) error {
	kv, err := m.bucket(ctx)
	if err != nil {
		return err
	}
	w, err := kv.Watch(ctx, modesKey)
	if err != nil {
		return fmt.Errorf("watch the modes of batches: %w", err)
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-w.Updates():
			if !ok {
				return errors.New("watch the modes of batches: the watch has ended")
			}
			if e == nil || e.Operation() != jetstream.KeyValuePut {
				continue
			}
			k, err := parseKept(e.Value())
			if err != nil {
				return err
			}
			if err := changed(k.Modes); err != nil {
				return err
			}
		}
	}
}
