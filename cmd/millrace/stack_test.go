package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestStopTellsEachError: of parts that end by themselves at the same time, and of
// those that fail to stop, each error is told once.
func TestStopTellsEachError(t *testing.T) {
	s := newStack(slog.New(slog.DiscardHandler))
	first, second, late := errors.New("first"), errors.New("second"), errors.New("late")
	s.launch("stops badly", func(ctx context.Context) error { <-ctx.Done(); return late })
	<-s.launch("a", func(context.Context) error { return first }).done
	<-s.launch("b", func(context.Context) error { return second }).done
	err := s.wait(t.Context())
	err = errors.Join(err, s.stop(t.Context(), err))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 3 || !errors.Is(err, first) ||
		!errors.Is(err, second) || !errors.Is(err, late) {
		t.Error(err)
	}
}
