package queues

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/userqueue"
)

// DeleteQueueRequest names a queue that is to go.
type DeleteQueueRequest struct {
	Name
	Force bool `query:"force" doc:"Delete items that are new, scheduled or started as well"`
}

// DeletedQueue is the answer.
type DeletedQueue struct {
	Name  string `json:"name" example:"mail"`
	Items int    `json:"items" doc:"Items that were deleted with it"`
}

func (h *Handler) delete(ctx context.Context, in *DeleteQueueRequest) (DeletedQueue, error) {
	items, err := h.store.Delete(ctx, in.Queue, in.Force)
	var live userqueue.LiveItems
	if errors.As(err, &live) {
		return DeletedQueue{}, httpapi.NewProblem(http.StatusConflict, live.Error(), httpapi.FieldError{
			Field: "queue", Code: "live_items",
			Rule: fmt.Sprintf("must have no items that are new, scheduled or started, and has %d; or send force=true",
				int(live)),
		})
	}
	if err != nil {
		return DeletedQueue{}, err
	}
	if err := h.hands.Drop(ctx, in.Queue); err != nil {
		h.log.Debug("the leader drops the consumer of a deleted queue", "queue", in.Queue, "error", err)
	}
	return DeletedQueue{in.Queue, items}, nil
}
