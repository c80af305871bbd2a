//go:build unix && !linux

package postgres

import (
	"context"
	"log/slog"
)

// limitMemory does nothing: this system does not tell what a process holds.
func limitMemory(context.Context, int, *slog.Logger) {}
