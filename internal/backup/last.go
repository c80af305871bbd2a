package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/backup/set"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/stream"
)

// lastKey is where the bucket of checkpoints has the newest backup that succeeded. An installation that was restored from
// a set knows the one before it.
const lastKey = "backup"

// last is what is kept of it.
type last struct {
	Begun instant.Time `json:"begun"` // what was acknowledged before is in the set
	Ended instant.Time `json:"ended"`
}

// noteLast keeps when a set was taken.
func noteLast(ctx context.Context, js jetstream.JetStream, m *set.Manifest) error {
	text, err := json.Marshal(last{m.Begun, m.Ended})
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, stream.Checkpoints)
	if err == nil {
		_, err = kv.Put(ctx, lastKey, text)
	}
	if err != nil {
		return fmt.Errorf("note the backup in the bucket %s: %w", stream.Checkpoints, err)
	}
	return nil
}

// Gauges returns the age of the newest backup. Without any the gauge is absent: whoever copies the servers by other
// means is not told that backups are missing.
func Gauges(js jetstream.JetStream) sampler.Source {
	age := sampler.NewGauge("millrace_backup_age_seconds",
		"How long ago the newest backup that succeeded began; absent while none has.")
	return sampler.Source{
		Name: "backups", Gauges: []*sampler.Gauge{age}, Every: time.Minute,
		Read: func(ctx context.Context, put sampler.Set) error {
			text, err := stream.GetKey(ctx, js, stream.Checkpoints, lastKey)
			if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil
			}
			var l last
			if err == nil {
				err = json.Unmarshal(text, &l)
			}
			if err != nil {
				return fmt.Errorf("read when the newest backup was taken: %w", err)
			}
			put(age, time.Since(l.Begun.Time).Seconds())
			return nil
		},
	}
}
