package live

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// pollEvery is how often a view that is polled is computed while someone watches, and
// pollLimit for how long.
const (
	pollEvery = 200 * time.Millisecond
	pollLimit = 5 * time.Second
)

// Polled completes a view that has no parameters: it is computed five times a
// second unless it says how often (View.Every), and its states differ wherever
// their encodings do. Readers are told away of its errors; see Unavailable.
func Polled[T any](v View, away string, compute func(context.Context) (T, error)) View {
	if v.Every == 0 {
		v.Every = pollEvery
	}
	v.State = reflect.TypeFor[T]()
	v.Open = func(auth.Caller, Values) (string, Source, *httpapi.Problem) {
		return "", polled[T]{v.Name, away, compute}, nil
	}
	return v
}

// Unavailable is the error of a view that cannot be computed at present. Readers
// are told the detail; the log has the cause.
func Unavailable(detail string, cause error) error {
	return fmt.Errorf("%w (%w)", httpapi.NewProblem(http.StatusServiceUnavailable, detail), cause)
}

// polled is a source that does not say when it changes.
type polled[T any] struct {
	view    string
	away    string
	compute func(context.Context) (T, error)
}

// Changed implements Source.
func (polled[T]) Changed() <-chan struct{} { return nil }

// Snapshot implements Source.
func (p polled[T]) Snapshot(ctx context.Context) (Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	state, err := p.compute(ctx)
	if err != nil {
		return Snapshot{}, Unavailable(p.away, err)
	}
	body, err := json.Marshal(state)
	if err != nil {
		return Snapshot{}, fmt.Errorf("encode %s: %w", p.view, err)
	}
	return Snapshot{Body: body, Numbers: string(body)}, nil
}
