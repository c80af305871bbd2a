package shards

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/shard"
)

// QueueRequest are the parameters of GET /queues/{stage}.
type QueueRequest struct {
	httpapi.Params
	Stage        string `path:"stage" doc:"shard-splitter, shard-worker or mysql-sender" example:"shard-worker"`
	Limit        int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many items at most"`
	Offset       int    `query:"offset" minimum:"0" maximum:"1000000" doc:"How many to leave out first; cursor is the faster way"`
	UpdatedSince string `query:"updated_since" doc:"Only items that changed at or after this time, RFC 3339" example:"2025-01-01T00:00:00Z"`
	Cursor       string `query:"cursor" maxLength:"200" doc:"next_cursor of the page before"`
}

// QueueItem is an item that is ready.
type QueueItem struct {
	Filename  string    `json:"filename" example:"20250101000000"`
	Shard     int32     `json:"shard" example:"0"`
	CreatedAt time.Time `json:"created_at" example:"2025-01-01T00:00:00Z"`
}

// Queue is the answer.
type Queue struct {
	Stage      string      `json:"stage" example:"shard-worker"`
	Items      []QueueItem `json:"items"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"For the next page; absent from the last"`
}

var queueCursor = reads.JSON(func(tracking.QueuePlace) bool { return true })

func (h *Handler) queue(ctx context.Context, in *QueueRequest) (Queue, error) {
	stage, err := shard.CheckQueue(in.Stage)
	if err != nil {
		return Queue{}, err
	}
	page := tracking.QueuePage{Stage: stage, Limit: in.Limit + 1, Offset: in.Offset}
	if page.UpdatedSince, err = endpoint.ParseTime("updated_since", in.UpdatedSince); err != nil {
		return Queue{}, err
	}
	if err := queueCursor.Read(in.Cursor, &page.After); err != nil {
		return Queue{}, err
	}
	items, err := h.store.Queue(ctx, page)
	if err != nil {
		return Queue{}, err
	}
	items, next := reads.Cut(queueCursor, items, in.Limit, func(i tracking.QueueItem) *tracking.QueuePlace { return &i.QueuePlace })
	out := Queue{Stage: stage.String(), Items: make([]QueueItem, 0, len(items)), NextCursor: next}
	for _, it := range items {
		out.Items = append(out.Items, QueueItem{it.Filename, it.Shard, it.CreatedAt.UTC()})
	}
	return out, nil
}
