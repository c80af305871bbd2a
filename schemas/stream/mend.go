package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Missing returns which of the streams that [Ensure] makes, and of the bucket of processes, are missing because somebody has
// deleted them, and with create it makes them. They begin empty, with as many copies as [Events] has. Where [Events] is
// missing as well, nothing is returned: the process that starts next makes all of them. While an installation is restored,
// nothing is made, and the error is ErrRestoring.
func Missing(ctx context.Context, js jetstream.JetStream, create bool) (missing []string, err error) {
	events, err := js.Stream(ctx, Events)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the stream %s: %w", Events, err)
	}
	cfg := Config{Replicas: events.CachedInfo().Config.Replicas}.withDefaults()
	for _, part := range []struct {
		stream string
		make   func() error
	}{
		{DLQ, func() error { return ensureStreams(ctx, js, cfg.dlq()) }},
		{Sources, func() error { return ensureStreams(ctx, js, cfg.sources()) }},
		{Batches, func() error { return ensureStreams(ctx, js, cfg.batches()) }},
		{BatchesRead, func() error { return cfg.ensureBatchesRead(ctx, js) }},
		{"KV_" + ProcessBucket, func() error { return ensureBuckets(ctx, js, cfg.processes()) }},
	} {
		_, err := js.Stream(ctx, part.stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			missing, err = append(missing, part.stream), nil
			if create {
				if err = CheckRestored(ctx, js); err == nil {
					err = part.make()
				}
			}
		}
		if err != nil {
			return missing, fmt.Errorf("look at the stream %s: %w", part.stream, err)
		}
	}
	return missing, nil
}
