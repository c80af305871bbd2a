package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Names of streams and buckets.
const (
	Events = "EVENTS"
	DLQ    = "DLQ"
	// Checkpoints is the key-value bucket that holds, per view and slot
	// group, the batch that a projector has decided to apply.
	Checkpoints = "millrace_checkpoints"
	// Backfills is the key-value bucket that holds how far backfills have
	// come.
	Backfills = "millrace_backfill"
)

// Headers of a dead letter. The body is that of the message, without its end
// where HeaderCut says so.
const (
	HeaderReason  = "Millrace-Reason"  // the rule, for people
	HeaderCode    = "Millrace-Code"    // the rule's stable name
	HeaderField   = "Millrace-Field"   // the field that breaks it
	HeaderSubject = "Millrace-Subject" // where the message came from
	HeaderStream  = "Millrace-Stream"
	HeaderSeq     = "Millrace-Seq"
	HeaderTime    = "Millrace-Time" // when the stream received it, RFC 3339
	HeaderCut     = "Millrace-Cut"  // bytes of the body's end that there was no room for
)

// Config shapes the streams. The zero value of a field stands for its default.
type Config struct {
	Replicas    int           // copies of each stream; default 1
	DedupWindow time.Duration // how long the broker remembers message ids; default 1 h
	MaxBytes    int64         // size of the event stream; default unlimited
}

func (c Config) withDefaults() Config {
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.DedupWindow == 0 {
		c.DedupWindow = time.Hour
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = -1
	}
	return c
}

// Ensure creates the streams and buckets or brings their configuration up to
// date. It is idempotent and safe to call from several processes.
func Ensure(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	cfg = cfg.withDefaults()
	for _, sc := range []jetstream.StreamConfig{cfg.events(), cfg.dlq()} {
		if _, err := js.CreateOrUpdateStream(ctx, sc); err != nil {
			return fmt.Errorf("create stream %s: %w", sc.Name, err)
		}
	}
	_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket:      Checkpoints,
		Description: "batches that projectors have decided",
		History:     1,
		Replicas:    cfg.Replicas,
		Storage:     jetstream.FileStorage,
	})
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
		return fmt.Errorf("create bucket %s: %w", Checkpoints, err)
	}
	return nil
}

func (c Config) events() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        Events,
		Description: "pipeline events as published",
		Subjects:    []string{EventSubjects},
		Retention:   jetstream.LimitsPolicy,
		// A full stream refuses what is new, which its publisher notices,
		// and does not drop what a projector has yet to read. Nor does it drop
		// what is old: that is done by those who know what is folded.
		Discard:            jetstream.DiscardNew,
		MaxBytes:           c.MaxBytes,
		Storage:            jetstream.FileStorage,
		Replicas:           c.Replicas,
		Duplicates:         c.DedupWindow,
		AllowDirect:        true,
		AllowAtomicPublish: true,
	}
}

func (c Config) dlq() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        DLQ,
		Description: "messages that could not be processed, with the reason",
		Subjects:    []string{DLQSubjects},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      90 * 24 * time.Hour,
		Storage:     jetstream.FileStorage,
		Replicas:    c.Replicas,
		AllowDirect: true,
	}
}
