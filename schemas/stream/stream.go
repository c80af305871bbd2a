package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/event"
)

// Names of streams and buckets.
const (
	Events = "EVENTS"
	DLQ    = "DLQ"
	// Sources has what happens to the sources that are crawled.
	Sources = "SOURCES"
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
	// HeaderReplayID is the Nats-Msg-Id that a replay gives to the message. It is
	// random, since whoever takes an id first makes a later message with it a
	// duplicate. Only operators and Millrace may read it.
	HeaderReplayID = "Millrace-Replay-Id"
)

// MinDedupWindow is the shortest time for which a broker remembers ids.
const MinDedupWindow = 100 * time.Millisecond

// maxLetters bounds the dead letters: the broker has each one's subject in
// memory, and whoever may publish can make letters. Beyond, the oldest go.
const maxLetters = 500_000

// Config shapes the streams. The zero value of a field stands for its default.
type Config struct {
	Replicas int // copies of each stream; default 1
	// DedupWindow is how long the broker remembers the ids of messages that have
	// one, at 230 bytes of memory each; default 100 ms, the least that it takes.
	// Millrace's own publishers send none: the projector knows every event.
	DedupWindow time.Duration
	MaxBytes    int64 // size of the event stream; default unlimited
	// Stages are the pipeline, which is published with the event stream; default
	// what was published before.
	Stages event.Stages
}

func (c Config) withDefaults() Config {
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.DedupWindow = cmp.Or(c.DedupWindow, MinDedupWindow)
	c.MaxBytes = cmp.Or(c.MaxBytes, -1)
	return c
}

// Ensure creates the streams and buckets or brings their configuration up to
// date, so that a stream of an earlier release gets the present window. It is
// idempotent and safe to call from several processes.
func Ensure(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	if err := CheckRestored(ctx, js); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	events := cfg.events()
	var err error
	if events.Metadata, err = cfg.metadata(ctx, js); err != nil {
		return err
	}
	if err := ensureStreams(ctx, js, events, cfg.dlq(), cfg.sources(), cfg.batches()); err != nil {
		return err
	}
	if err := ensureBuckets(ctx, js, cfg.settings(), jetstream.KeyValueConfig{
		Bucket:      Checkpoints,
		Description: "batches that projectors have decided",
		// Should something else than a position be written, what was there before
		// is at hand.
		History:  16,
		Replicas: cfg.Replicas,
		Storage:  jetstream.FileStorage,
	}, cfg.processes()); err != nil {
		return err
	}
	return cfg.ensureBatchesRead(ctx, js)
}

func (c Config) processes() jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{
		Bucket: ProcessBucket, Description: "processes that are there", TTL: processFor, Replicas: c.Replicas,
	}
}

// ensureStreams creates streams, or brings them up to date.
func ensureStreams(ctx context.Context, js jetstream.JetStream, all ...jetstream.StreamConfig) error {
	for _, sc := range all {
		if _, err := js.CreateOrUpdateStream(ctx, sc); err != nil {
			return fmt.Errorf("create stream %s: %w", sc.Name, err)
		}
	}
	return nil
}

func ensureBuckets(ctx context.Context, js jetstream.JetStream, all ...jetstream.KeyValueConfig) error {
	for _, bucket := range all {
		_, err := js.CreateOrUpdateKeyValue(ctx, bucket)
		if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return fmt.Errorf("create bucket %s: %w", bucket.Bucket, err)
		}
	}
	return nil
}

// ProcessBucket is the bucket in which processes have an entry each, and processFor is how long
// one that is not renewed stays.
const (
	ProcessBucket = "millrace_processes"
	processFor    = time.Hour
)

// published is a stream that keeps what is published. A full one refuses what is new, which
// its publisher notices, and does not drop what a projector has yet to read.
func published(name, description, subjects string, replicas int, dedup time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Subjects: []string{subjects},
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		Storage: jetstream.FileStorage, Replicas: replicas, Duplicates: dedup,
		AllowDirect: true, AllowAtomicPublish: true,
	}
}

// events has no age: old events are dropped by those who know what is folded.
func (c Config) events() jetstream.StreamConfig {
	s := published(Events, "pipeline events as published", EventSubjects, c.Replicas, c.DedupWindow)
	s.MaxBytes = c.MaxBytes
	return s
}

func (c Config) dlq() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        DLQ,
		Description: "messages that could not be processed, with the reason",
		Subjects:    []string{DLQSubjects},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      90 * 24 * time.Hour,
		MaxMsgs:     maxLetters,
		Storage:     jetstream.FileStorage,
		Replicas:    c.Replicas,
		AllowDirect: true,
	}
}

func (c Config) sources() jetstream.StreamConfig {
	// The window is longer than a connection lives on whose other end is silent, so that what
	// its publisher has sent twice is there once.
	s := published(Sources, "what happens to the sources that are crawled", SourceSubjects, c.Replicas, 10*time.Minute)
	s.MaxAge = 30 * 24 * time.Hour
	return s
}
