package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Names of the streams of batches.
const (
	// Batches holds the messages that announce batches, until they are read or are dead
	// letters.
	Batches = "BATCHES"
	// BatchesRead holds what was read of batches, until it is stored. Only Millrace
	// publishes to it.
	BatchesRead = "BATCHES_READ"
)

// Subjects of batches.
const (
	// BatchSubjects are those of messages that announce batches.
	BatchSubjects = "batches.>"
	// BatchCollected is where crawlers announce batches, in any of the formats.
	BatchCollected = "batches.data.collected"
	// BatchNotified is where servers of S3 publish notifications of buckets.
	BatchNotified = "batches.s3"
	// BatchesReadSubject is that of what was read.
	BatchesReadSubject = "batches_read"
)

// BatchesCheckpoint is the key, in the bucket of checkpoints, of how far what was read of
// batches is stored.
const BatchesCheckpoint = "batches"

// ensureBatches creates the streams of batches, or brings them up to date.
func (c Config) ensureBatches(ctx context.Context, js jetstream.JetStream) error {
	for _, sc := range []jetstream.StreamConfig{c.batches(), c.batchesRead()} {
		if _, err := js.CreateOrUpdateStream(ctx, sc); err != nil {
			return fmt.Errorf("create stream %s: %w", sc.Name, err)
		}
	}
	return c.ensureSettings(ctx, js)
}

// Settings is the bucket of what people set while an installation runs. Only Millrace
// writes it.
const Settings = "millrace_settings"

func (c Config) ensureSettings(ctx context.Context, js jetstream.JetStream) error {
	_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: Settings, Description: "what people set while Millrace runs", History: 16, Replicas: c.Replicas,
		Storage: jetstream.FileStorage,
	})
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
		return fmt.Errorf("create bucket %s: %w", Settings, err)
	}
	return nil
}

// batches has no age: a message waits for as long as its mode is off.
func (c Config) batches() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               Batches,
		Description:        "messages that announce batches of crawled items, and are not read yet",
		Subjects:           []string{BatchSubjects},
		Retention:          jetstream.LimitsPolicy,
		Discard:            jetstream.DiscardNew,
		Storage:            jetstream.FileStorage,
		Replicas:           c.Replicas,
		Duplicates:         10 * time.Minute,
		AllowDirect:        true,
		AllowAtomicPublish: true,
	}
}

func (c Config) batchesRead() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               BatchesRead,
		Description:        "what was read of batches of crawled items, and is not stored yet",
		Subjects:           []string{BatchesReadSubject},
		Retention:          jetstream.LimitsPolicy,
		Discard:            jetstream.DiscardNew,
		Storage:            jetstream.FileStorage,
		Replicas:           c.Replicas,
		Duplicates:         MinDedupWindow,
		AllowDirect:        true,
		AllowAtomicPublish: true,
	}
}
