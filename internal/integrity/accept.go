package integrity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Loss is what a stream has lost, as it is written to the bucket of checkpoints.
type Loss struct {
	Sequences Ranges   `json:"sequences"`
	Remarks   []string `json:"remarks"`
}

func (l Loss) empty() bool { return len(l.Sequences) == 0 && len(l.Remarks) == 0 }

// plus returns what either has.
func (l Loss) plus(other Loss) Loss {
	l.Sequences = l.Sequences.Plus(other.Sequences)
	for _, remark := range other.Remarks {
		if !slices.Contains(l.Remarks, remark) {
			l.Remarks = append(l.Remarks, remark)
		}
	}
	return l
}

// Keys of the bucket of checkpoints.
func lostKey(name string) string     { return "lost." + name }
func acceptedKey(name string) string { return "accepted." + name }

func get(ctx context.Context, kv jetstream.KeyValue, key string) (l Loss, err error) {
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("read %s of bucket %s: %w", key, stream.Checkpoints, err)
	}
	if err := json.Unmarshal(entry.Value(), &l); err != nil {
		return l, fmt.Errorf("read %s of bucket %s: %w", key, stream.Checkpoints, err)
	}
	return l, nil
}

func put(ctx context.Context, kv jetstream.KeyValue, key string, l Loss) error {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = kv.Put(ctx, key, text)
	}
	if err != nil {
		return fmt.Errorf("write %s of bucket %s: %w", key, stream.Checkpoints, err)
	}
	return nil
}

// Accept accepts what a stream has lost, so that the installation is well again,
// and returns it.
func Accept(ctx context.Context, js jetstream.JetStream, name string) (l Loss, err error) {
	kv, err := js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return l, fmt.Errorf("accept what %s has lost: %w", name, err)
	}
	if l, err = get(ctx, kv, lostKey(name)); err != nil || l.empty() {
		return l, err
	}
	accepted, err := get(ctx, kv, acceptedKey(name))
	if err != nil {
		return l, err
	}
	if err := put(ctx, kv, acceptedKey(name), accepted.plus(l)); err != nil {
		return l, err
	}
	if err := kv.Purge(ctx, lostKey(name)); err != nil {
		return l, fmt.Errorf("accept what %s has lost: %w", name, err)
	}
	return l, nil
}

// exchange drops what was accepted, and writes what was not, of each stream.
func (c *Checker) exchange(ctx context.Context) error {
	var errs []error
	for _, st := range c.cfg.Streams {
		n := c.note(st.Name)
		if l := (Loss{n.Lost, n.Remarks}); !l.empty() {
			errs = append(errs, c.exchangeOf(ctx, st.Name, l))
		}
	}
	return errors.Join(errs...)
}

func (c *Checker) exchangeOf(ctx context.Context, name string, l Loss) error {
	kv, err := c.js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", stream.Checkpoints, err)
	}
	accepted, err := get(ctx, kv, acceptedKey(name))
	if err != nil {
		return err
	}
	rest := Loss{
		Sequences: l.Sequences.Minus(accepted.Sequences),
		Remarks: slices.DeleteFunc(slices.Clone(l.Remarks), func(remark string) bool {
			return slices.Contains(accepted.Remarks, remark)
		}),
	}
	if len(rest.Sequences) < len(l.Sequences) || len(rest.Remarks) < len(l.Remarks) || rest.Sequences.Count() < l.Sequences.Count() {
		c.accepted(name, l, rest)
		if err := c.save(); err != nil {
			return err
		}
	}
	return c.tell(ctx, kv, name, rest)
}

// accepted writes the losses of a stream that are not accepted yet into its note.
func (c *Checker) accepted(name string, all, rest Loss) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.noteLocked(name)
	n.Accepted = n.Accepted.Plus(all.Sequences.Minus(rest.Sequences))
	n.Lost, n.Remarks = rest.Sequences, rest.Remarks
	c.metrics.lost(name, 0, n)
	c.log.Info("what a stream has lost was accepted", "stream", name, "sequences",
		all.Sequences.Minus(rest.Sequences).String())
}

// tell writes what a stream has lost to the bucket, for Accept to find.
func (c *Checker) tell(ctx context.Context, kv jetstream.KeyValue, name string, l Loss) error {
	text, err := json.Marshal(l)
	if err != nil || l.empty() || c.told[name] == string(text) {
		return err
	}
	there, err := get(ctx, kv, lostKey(name))
	if err != nil {
		return err
	}
	if err := put(ctx, kv, lostKey(name), there.plus(l)); err != nil {
		return err
	}
	c.told[name] = string(text)
	return nil
}
