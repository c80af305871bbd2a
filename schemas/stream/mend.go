package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Missing returns which of the stream of dead letters and the bucket of processes somebody has deleted, and makes them if
// it is told to. They begin empty, with as many copies as [Events] has. Streams of which views have positions are not
// among them: a view passes over what is at the sequences that it has read before. Without that one
// none is missing: whoever starts next decides. It makes none while an installation is restored, which is ErrRestoring.
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
