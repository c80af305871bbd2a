package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Names of the streams of the shard pipeline.
const (
	// Work holds a message for each item that is ready for a stage. Postgres
	// says what is in it; the stream can be made anew from there.
	Work = "WORK"
	// WorkAcks holds what daemons have answered to messages of Work, as they
	// sent it, until it stands in Postgres.
	WorkAcks = "WORK_ACKS"
	// Shards holds what daemons report that prefer NATS to HTTP.
	Shards = "SHARDS"
)

// Subjects of the shard pipeline.
const (
	WorkSubjects    = "work.*"
	ShardSubjects   = "shards.>"
	WorkAckSubjects = "$JS.ACK." + Work + ".>"
	// WorkLeaders is where servers tell which of them leads a consumer of Work now.
	WorkLeaders      = "$JS.EVENT.ADVISORY.CONSUMER.LEADER_ELECTED." + Work + ".*"
	WorkDeadSubjects = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + Work + ".*"
	// WorkMoves is the core NATS subject on which a client reports moves of
	// items it has taken, in batches, and is answered when they are durable.
	WorkMoves = "millrace.work.moves"
	// WorkOffers is where Millrace's processes pass a request for offers on to the
	// one that publishes to Work.
	WorkOffers = "millrace.work.offers"
	// WorkEnqueue is the core NATS subject on which a client adds items to a
	// queue defined by users, and is answered when they are durable.
	WorkEnqueue = "millrace.work.enqueue"
	// WorkReport is the core NATS subject on which a worker says what became of an
	// item of a user-defined queue, and is answered when that is durable.
	WorkReport = "millrace.work.report"
)

// WorkSubject returns where items that are ready for a stage appear. It is
// the filter of the stage's consumer, whose name is the stage's.
func WorkSubject(stage string) string { return "work." + stage }

// WorkConfig shapes the streams and consumers of the shard pipeline. The zero
// value of a field stands for its default.
type WorkConfig struct {
	Replicas int           // copies of each stream; default 1
	AckWait  time.Duration // the lease of a queue that names none; default 30 s
	MaxAge   time.Duration // how long reports stay in Shards; default 7 days
}

func (c WorkConfig) withDefaults() WorkConfig {
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.AckWait = cmp.Or(c.AckWait, 30*time.Second)
	c.MaxAge = cmp.Or(c.MaxAge, 7*24*time.Hour)
	return c
}

// EnsureWork creates the streams of the shard pipeline and a consumer for each
// stage, or brings their configuration up to date. It is idempotent and safe
// to call from several processes.
func EnsureWork(ctx context.Context, js jetstream.JetStream, stages []string, cfg WorkConfig) error {
	cfg = cfg.withDefaults()
	// A stream that has passed answers on by itself, as before version 2.15.3 of nats-server, goes on until
	// there is who takes them.
	if err := ensureAckConsumer(ctx, js, cfg); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	if err := ensureStreams(ctx, js, cfg.work(), cfg.acks(), cfg.ackRelay(), cfg.shards()); err != nil {
		return err
	}
	if err := ensureAckConsumer(ctx, js, cfg); err != nil {
		return err
	}
	for _, stage := range append([]string{Nobody}, stages...) {
		if err := EnsureConsumer(ctx, js, stage, cfg); err != nil {
			return fmt.Errorf("create consumer %s of %s: %w", stage, Work, err)
		}
	}
	return nil
}

// MendAnswers makes what answers of daemons and requests that wait need, where somebody has deleted it. It returns what it
// has made.
func MendAnswers(ctx context.Context, js jetstream.JetStream, cfg WorkConfig) (made []string, err error) {
	cfg = cfg.withDefaults()
	for _, part := range []struct {
		what   string
		look   func() error
		ensure func() error
	}{
		{
			"stream " + WorkAckRelay,
			func() error { _, err := js.Stream(ctx, WorkAckRelay); return err },
			func() error { return ensureStreams(ctx, js, cfg.ackRelay()) },
		},
		{
			"consumer " + WorkAckRelay,
			func() error { _, err := js.Consumer(ctx, WorkAckRelay, WorkAckRelay); return err },
			func() error { return ensureAckConsumer(ctx, js, cfg) },
		},
		{
			"consumer " + Nobody,
			func() error { _, err := js.Consumer(ctx, Work, Nobody); return err },
			func() error { return EnsureConsumer(ctx, js, Nobody, cfg) },
		},
	} {
		err := part.look()
		if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
			if err = part.ensure(); err == nil {
				made = append(made, part.what)
			}
		}
		if err != nil {
			return made, fmt.Errorf("look at the %s: %w", part.what, err)
		}
	}
	return made, nil
}

// EnsureConsumer creates the consumer of a queue, or brings it up to date. It
// leaves what the settings of the queue have set: a pause, how many items may be
// out, how often one is delivered, and the lease. It returns an error where the consumer has
// a damaged setting that cannot be changed.
func EnsureConsumer(ctx context.Context, js jetstream.JetStream, stage string, cfg WorkConfig) error {
	cfg = cfg.withDefaults()
	want := jetstream.ConsumerConfig{
		Durable:       stage,
		Description:   "shared by all daemons of the stage",
		FilterSubject: WorkSubject(stage),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       cfg.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    mostWaiting(stage),

		MaxRequestBatch:    MaxPullBatch,
		MaxRequestExpires:  MaxPullExpires,
		MaxRequestMaxBytes: MaxPullBytes,
	}
	old, err := js.Consumer(ctx, Work, stage)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = js.CreateOrUpdateConsumer(ctx, Work, want)
		return err
	}
	if err != nil {
		return err
	}
	have := old.CachedInfo().Config
	want.MaxAckPending, want.MaxDeliver, want.PauseUntil = have.MaxAckPending, have.MaxDeliver, have.PauseUntil
	want.AckWait = have.AckWait
	if want.MaxWaiting != have.MaxWaiting && have.MaxWaiting != oldMostWaiting {
		return fmt.Errorf("max_waiting is %d, and should be %d: the file of its configuration is damaged; "+
			"delete the consumer with \"nats consumer rm %s %s\", and it is made anew: what workers hold is handed out again",
			have.MaxWaiting, want.MaxWaiting, Work, stage)
	}
	want.MaxWaiting = have.MaxWaiting // which cannot be changed
	// Also where it seems to be the same: the server does not notice when the file of a
	// consumer's configuration is damaged.
	_, err = js.UpdateConsumer(ctx, Work, want)
	return err
}

// oldMostWaiting is what the first versions of Millrace have left to the server.
const oldMostWaiting = 512

func mostWaiting(stage string) int {
	if stage == Nobody {
		return 64 << 10
	}
	return 4096
}

// DropConsumer deletes the consumer of a queue and its messages, if there are any.
func DropConsumer(ctx context.Context, js jetstream.JetStream, stage string) error {
	err := js.DeleteConsumer(ctx, Work, stage)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("delete consumer %s of %s: %w", stage, Work, err)
	}
	s, err := js.Stream(ctx, Work)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(WorkSubject(stage)))
	}
	if err != nil {
		return fmt.Errorf("purge %s of %s: %w", WorkSubject(stage), Work, err)
	}
	return nil
}

// persist spares a single server the sync to disk that it would otherwise do
// for each message and each acknowledgement: Postgres has it all, and repairs
// what a crash takes from the stream. Replicated streams have no such mode.
func (c WorkConfig) persist() jetstream.PersistModeType {
	if c.Replicas > 1 {
		return jetstream.DefaultPersistMode
	}
	return jetstream.AsyncPersistMode
}

func (c WorkConfig) work() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        Work,
		Description: "items ready for a stage, each pulled by one daemon",
		Subjects:    []string{WorkSubjects},
		Retention:   jetstream.WorkQueuePolicy,
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		Replicas:    c.Replicas,
		PersistMode: c.persist(),
		AllowDirect: true,
		// Unused: messages carry no ids. Their publisher names the sequence
		// that each has to get, which a restart does not make it forget.
		Duplicates: 100 * time.Millisecond,
	}
}

func (c WorkConfig) acks() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        WorkAcks,
		Description: "what daemons answered to messages of " + Work,
		Subjects:    []string{WorkAckSubjects, WorkDeadSubjects},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      24 * time.Hour,
		Storage:     jetstream.FileStorage,
		Replicas:    c.Replicas,
		PersistMode: c.persist(),
		NoAck:       true, // an acknowledgement of its own would reach the daemon
		Duplicates:  100 * time.Millisecond,
	}
}

// ackRelay keeps answers until they are passed on: WorkAcks has them then.
func (c WorkConfig) ackRelay() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        WorkAckRelay,
		Description: "answers of daemons on their way to " + Work,
		Subjects:    []string{daemonAcks},
		Retention:   jetstream.InterestPolicy,
		Discard:     jetstream.DiscardNew, // those that have been confirmed stay
		MaxMsgs:     100_000,
		MaxBytes:    64 << 20,
		MaxMsgSize:  64 << 10,
		Storage:     jetstream.MemoryStorage,
		Replicas:    c.Replicas,
		Duplicates:  100 * time.Millisecond,
	}
}

// ackWait is how long a process that has died, or stands still, keeps answers from others.
const ackWait = 2 * time.Second

// ensureAckConsumer makes the consumer of ackRelay, which all processes share. It takes what arrives from now on:
// answers that a stream has passed on by itself must not be delivered twice.
func ensureAckConsumer(ctx context.Context, js jetstream.JetStream, c WorkConfig) error {
	_, err := js.CreateOrUpdateConsumer(ctx, WorkAckRelay, jetstream.ConsumerConfig{
		Durable:       WorkAckRelay,
		Description:   "shared by all processes of Millrace that pass answers on",
		DeliverPolicy: jetstream.DeliverNewPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: 10_000,
		MemoryStorage: true,
		Replicas:      c.Replicas,
	})
	if err != nil {
		return fmt.Errorf("create the consumer of %s: %w", WorkAckRelay, err)
	}
	return nil
}

func (c WorkConfig) shards() jetstream.StreamConfig {
	s := published(Shards, "reports of shard daemons", ShardSubjects, c.Replicas, time.Hour)
	s.MaxAge = c.MaxAge
	return s
}
