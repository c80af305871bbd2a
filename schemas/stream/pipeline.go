package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/event"
)

// stagesKey is the metadata of the stream EVENTS that names the stages of the
// pipeline. Whoever may publish events may also ask for the stream's
// description, so clients need no setting and no further permission.
const stagesKey = "millrace_stages"

// Pipeline returns the stages that the installation's projectors count, as they
// have published them. It returns none when there is no stream yet, or it has
// been made by an earlier release.
func Pipeline(ctx context.Context, js jetstream.JetStream) (event.Stages, error) {
	metadata, err := eventsMetadata(ctx, js)
	if err != nil || metadata[stagesKey] == "" {
		return event.Stages{}, err
	}
	stages, err := event.ParseStages(metadata[stagesKey])
	if err != nil {
		return event.Stages{}, fmt.Errorf("stages of the stream %s: %w", Events, err)
	}
	return stages, nil
}

// metadata is that of the event stream: what it has, with the stages.
func (c Config) metadata(ctx context.Context, js jetstream.JetStream) (map[string]string, error) {
	metadata, err := eventsMetadata(ctx, js)
	if err != nil || len(c.Stages.Names()) == 0 {
		return metadata, err
	}
	if metadata = maps.Clone(metadata); metadata == nil {
		metadata = map[string]string{}
	}
	metadata[stagesKey] = strings.Join(c.Stages.Names(), ",")
	return metadata, nil
}

func eventsMetadata(ctx context.Context, js jetstream.JetStream) (map[string]string, error) {
	s, err := js.Stream(ctx, Events)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at stream %s: %w", Events, err)
	}
	return s.CachedInfo().Config.Metadata, nil
}
