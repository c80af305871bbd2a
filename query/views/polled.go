package views

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/live"
)

// polled is a source without parameters that is computed at intervals.
type polled[T any] struct {
	what    string
	compute func(context.Context) (T, error)
}

// Changed implements live.Source.
func (polled[T]) Changed() <-chan struct{} { return nil }

// Snapshot implements live.Source.
func (p polled[T]) Snapshot(ctx context.Context) (live.Snapshot, error) {
	state, err := p.compute(ctx)
	if err != nil {
		return live.Snapshot{}, err
	}
	body, err := json.Marshal(state)
	if err != nil {
		return live.Snapshot{}, fmt.Errorf("encode %s: %w", p.what, err)
	}
	return live.Snapshot{Body: body, Numbers: string(body)}, nil
}

// view returns the view of a source that has no parameters. Its states differ
// wherever their encodings do.
func view[T any](v live.View, compute func(context.Context) (T, error)) live.View {
	v.State = reflect.TypeFor[T]()
	v.Open = func(live.Values) (string, live.Source, *httpapi.Problem) {
		return "", polled[T]{v.Name, compute}, nil
	}
	return v
}
