package stream

import (
	"context"
	"encoding/json"
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

// Settings is the bucket of what people set while an installation runs. Only Millrace
// writes it.
const Settings = "millrace_settings"

func (c Config) settings() jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{
		Bucket: Settings, Description: "what people set while Millrace runs", History: 16, Replicas: c.Replicas,
		Storage: jetstream.FileStorage,
	}
}

// batches has no age: a message waits for as long as its mode is off.
func (c Config) batches() jetstream.StreamConfig {
	return published(Batches, "messages that announce batches of crawled items, and are not read yet", BatchSubjects,
		c.Replicas, 10*time.Minute)
}

// ensureBatchesRead creates the stream of what was read. One that was deleted goes on behind
// what is stored, since its view knows that by its sequences.
func (c Config) ensureBatchesRead(ctx context.Context, js jetstream.JetStream) error {
	if err := ensureStreams(ctx, js, c.batchesRead()); err != nil {
		return err
	}
	read, err := js.Stream(ctx, BatchesRead)
	if err != nil {
		return fmt.Errorf("look at the stream %s: %w", BatchesRead, err)
	}
	if read.CachedInfo().State.LastSeq > 0 {
		return nil
	}
	upto, err := batchesStored(ctx, js)
	if err == nil {
		err = read.Purge(ctx, jetstream.WithPurgeSequence(upto+1))
	}
	if err != nil {
		return fmt.Errorf("have the stream %s go on behind what is stored: %w", BatchesRead, err)
	}
	return nil
}

// batchesStored returns the sequence up to which what was read is stored, or is being stored; 0: nothing is.
func batchesStored(ctx context.Context, js jetstream.JetStream) (upto uint64, err error) {
	kv, err := js.KeyValue(ctx, Checkpoints)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	e, err := kv.Get(ctx, BatchesCheckpoint)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var stored struct{ To uint64 } // of a checkpoint.Record, which clients need not have
	err = json.Unmarshal(e.Value(), &stored)
	return stored.To, err
}

func (c Config) batchesRead() jetstream.StreamConfig {
	return published(BatchesRead, "what was read of batches of crawled items, and is not stored yet", BatchesReadSubject,
		c.Replicas, MinDedupWindow)
}
