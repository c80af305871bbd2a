package uploads

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/uploads"
)

// completePatience is for how long a file that has come in waits for the database.
const completePatience = 30 * time.Second

// complete makes an upload known. While the database is away it tries again: without that, the caller would have to send
// all of the file once more.
func (h *Handler) complete(ctx context.Context, id uuid.UUID, r uploads.Received) error {
	end := time.Now().Add(completePatience)
	for wait, again := 100*time.Millisecond, false; ; wait, again = min(2*wait, 2*time.Second), true {
		err := h.store.Complete(ctx, id, r)
		if again && errors.Is(err, uploads.ErrStopped) { // an earlier try has succeeded, and its answer was lost
			if _, err = h.store.Get(ctx, uploads.Viewer{All: true}, id); errors.Is(err, uploads.ErrNotFound) {
				return uploads.ErrStopped
			}
		}
		if err == nil || h.problem(err).Status != http.StatusServiceUnavailable {
			return err
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return httpapi.NewProblem(http.StatusServiceUnavailable, "Postgres is away or too slow, so it is not known "+
				"whether the upload is made: GET /uploads shows it; send the file again where it does not").
				WithHeader("Retry-After", "10")
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// signPatience bounds how long the database is waited for while a file comes in.
const signPatience = 2 * time.Second

// sign notes that a file is coming in. It goes on coming in while the database is away.
func (h *Handler) sign(ctx context.Context, id uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, signPatience)
	defer cancel()
	err := h.store.Receiving(ctx, id)
	if err != nil && !errors.Is(err, uploads.ErrStopped) {
		h.log.Debug("a file gives no sign that it is coming in", "error", err)
		return nil
	}
	return err
}
