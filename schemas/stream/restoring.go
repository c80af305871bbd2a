package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Restoring is the bucket that a server has while an installation is restored to it. Nothing may work there before the
// restore has ended: some of what it would find is not there yet.
const Restoring = "millrace_restoring"

// ErrRestoring is the error of a server to which an installation is being restored.
var ErrRestoring = errors.New("a restore to this NATS server has not ended: run it to its end before you start Millrace")

// CheckRestored returns ErrRestoring for such a server.
func CheckRestored(ctx context.Context, js jetstream.JetStream) error {
	_, err := js.KeyValue(ctx, Restoring)
	switch {
	case err == nil:
		return ErrRestoring
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return nil
	}
	return fmt.Errorf("look for a restore: %w", err)
}
