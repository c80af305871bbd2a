package shards

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/shard"
)

// HistoryRequest are the parameters of GET /files/{filename}/history.
type HistoryRequest struct {
	httpapi.Params
	Filename string `path:"filename" example:"20250101000000"`
	Shard    string `query:"shard" doc:"Only of this shard" example:"0"`
	Stage    string `query:"stage" doc:"Only at this stage" example:"shard-worker"`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many at most"`
	Cursor   string `query:"cursor" maxLength:"64" doc:"next_cursor of the page before"`
}

// Transition is something that happened to an item.
type Transition struct {
	ID         string    `json:"id" doc:"Its place in the order of all"`
	Filename   string    `json:"filename" example:"20250101000000"`
	Shard      int32     `json:"shard" example:"0"`
	Stage      string    `json:"stage" example:"shard-worker"`
	Transition string    `json:"transition" enum:"register,start,done,fail,retry,release,again,expire,cancel" example:"done"`
	Status     string    `json:"status" enum:"new,started,done,failed" doc:"After it" example:"done"`
	Attempt    int32     `json:"attempt" doc:"How often the item had been taken at the stage"`
	Worker     string    `json:"worker,omitempty"`
	Error      string    `json:"error,omitempty"`
	At         time.Time `json:"at"`
}

// History is the answer.
type History struct {
	Filename    string       `json:"filename"`
	Transitions []Transition `json:"transitions" doc:"The oldest first"`
	NextCursor  string       `json:"next_cursor,omitempty" doc:"For the next page; absent from the last"`
}

var historyCursor = reads.Cursor[queue.Place]{
	Encode: queue.Place.String,
	Decode: func(text string) (queue.Place, bool) {
		at, err := queue.ParsePlace(text)
		return at, err == nil
	},
}

func (h *Handler) history(ctx context.Context, in *HistoryRequest) (History, error) {
	name, err := shard.Filename(in.Filename)
	if err != nil {
		return History{}, err
	}
	page := tracking.HistoryPage{Filename: name, Limit: in.Limit + 1}
	if page.Shard, err = parseShard(in.Shard); err != nil {
		return History{}, err
	}
	if page.Stage, err = parseStage(in.Stage); err != nil {
		return History{}, err
	}
	if err := historyCursor.Read(in.Cursor, &page.After); err != nil {
		return History{}, err
	}
	all, err := h.store.History(ctx, page)
	if err != nil {
		return History{}, err
	}
	if len(all) == 0 {
		if _, err := h.store.File(ctx, name); err != nil {
			return History{}, err
		}
	}
	all, next := reads.Cut(historyCursor, all, in.Limit, func(t tracking.Transition) queue.Place { return t.Place })
	out := History{Filename: name, Transitions: make([]Transition, 0, len(all)), NextCursor: next}
	for _, t := range all {
		out.Transitions = append(out.Transitions, transitionOf(t))
	}
	return out, nil
}

func transitionOf(t tracking.Transition) Transition {
	return Transition{
		t.Place.String(), t.Filename, t.Shard, t.Stage().String(), t.Move, t.Status, t.Attempt, t.Worker,
		t.Error, t.At.UTC(),
	}
}
