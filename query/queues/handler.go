package queues

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/item"
)

// Handler answers the reads.
type Handler struct {
	store  *userqueue.Store
	owners userqueue.Owners
	feeds  *live.Transitions
}

// New returns the handler; Register puts it on a server.
func New(feeds live.TransitionsConfig, store *userqueue.Store, owners userqueue.Owners) *Handler {
	return &Handler{store, owners, live.NewTransitions(feeds, store.Queues().Now)}
}

// Register adds the routes, for callers with the scope read.
func (h *Handler) Register(api endpoint.API) {
	api = api.At("/queues", "Queues")
	read := endpoint.For(auth.Read)
	endpoint.Get(api, read("list-queues", "", "User-defined queues", ""), h.list)
	endpoint.Get(api, read("get-user-queue", "/{queue}", "A queue in numbers",
		"Exact, at a cost that does not depend on the number of items."), h.one)
	endpoint.Get(api, read("list-queue-items", "/{queue}/items", "Items of a queue, the oldest first", ""), h.items)
	h.feeds.Serve(api, describeFeed(api.Server), h.feed)
	endpoint.Get(api, read("get-queue-item", "/{queue}/items/{id}", "An item with what happened to it", ""), h.item)
}

type none struct{ httpapi.Params }

// ItemStates are numbers of items by state.
type ItemStates struct {
	New       int64 `json:"new"`
	Scheduled int64 `json:"scheduled"`
	Started   int64 `json:"started"`
	Done      int64 `json:"done"`
	Failed    int64 `json:"failed"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`
}

// UserQueue is a queue in numbers.
type UserQueue struct {
	Name        string    `json:"name" example:"mail"`
	MaxAttempts int       `json:"max_attempts"`
	LeaseS      float64   `json:"lease_s"`
	MeasuredS   float64   `json:"measured_lease_s,omitempty" doc:"Seconds that count in the place of lease_s while uploads are worked in the queue, by how long workers have items"`
	BackoffS    []float64 `json:"backoff_s" nullable:"false"`
	userqueue.Limits
	Paused     bool       `json:"paused"`
	Depth      int64      `json:"depth" doc:"Items that can be taken now"`
	OldestAgeS float64    `json:"oldest_age_s" doc:"Seconds since the item that has been in the queue longest came into it; 0 in an empty queue"`
	States     ItemStates `json:"states" doc:"Items by state"`
}

// UserQueueList is a list of queues.
type UserQueueList struct {
	Items []UserQueue `json:"items" nullable:"false"`
}

func (h *Handler) list(ctx context.Context, _ *none) (UserQueueList, error) {
	states, err := h.store.States(ctx)
	out := UserQueueList{Items: []UserQueue{}}
	for _, v := range states {
		out.Items = append(out.Items, queueOf(v))
	}
	return out, err
}

func queueOf(v queue.State) UserQueue {
	return UserQueue{
		Name: v.Name, MaxAttempts: v.MaxAttempts, LeaseS: v.LeaseS, MeasuredS: v.MeasuredS, BackoffS: v.BackoffS,
		Limits: userqueue.LimitsOf(v.Settings),
		Paused: v.Paused, Depth: v.Depth, OldestAgeS: v.OldestAge.Seconds(),
		States: ItemStates{
			New: v.Depth, Scheduled: v.Delayed, Started: v.Counts[item.Started], Done: v.Counts[item.Done],
			Failed: v.Counts[item.Failed] - v.Dead, Dead: v.Dead - v.Cancelled, Cancelled: v.Cancelled,
		},
	}
}

// Name is the path of a queue.
type Name struct {
	httpapi.Params
	Queue string `path:"queue" example:"mail"`
}

func (h *Handler) one(ctx context.Context, in *Name) (UserQueue, error) {
	states, err := h.store.States(ctx)
	if err != nil {
		return UserQueue{}, err
	}
	for _, v := range states {
		if v.Name == in.Queue {
			return queueOf(v), nil
		}
	}
	return UserQueue{}, queue.ErrNoQueue
}

// UserQueueItemsRequest are the parameters of a list of items.
type UserQueueItemsRequest struct {
	Name
	State string `query:"state" doc:"new, scheduled, started, done, failed, dead or cancelled"`
	Group string `query:"group" maxLength:"255"`
	Key   string `query:"key" maxLength:"255"`

	Payload    string `query:"payload" maxLength:"255" doc:"Text that the payload has somewhere, as its JSON was given; any case"`
	Retried    bool   `query:"retried" doc:"Only items that are at work, or wait, after an attempt that has failed"`
	UnchangedS int    `query:"unchanged_s" minimum:"0" maximum:"31536000" doc:"Only items that have not changed for so many seconds"`

	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor string `query:"cursor" maxLength:"20" doc:"next_cursor of the page before"`
}

// UserQueueItem is an item of a queue.
type UserQueueItem struct {
	ID         int64           `json:"id"`
	State      string          `json:"state" enum:"new,scheduled,started,done,failed,dead,cancelled"`
	Generation int32           `json:"generation"`
	Attempts   int32           `json:"attempts"`
	Priority   int16           `json:"priority"`
	Key        string          `json:"key,omitempty"`
	Group      string          `json:"group,omitempty"`
	Payload    json.RawMessage `json:"payload"`
	Result     json.RawMessage `json:"result"`
	Worker     string          `json:"worker,omitempty" doc:"Who took it last"`
	Error      string          `json:"error,omitempty" doc:"The last one"`
	CreatedAt  time.Time       `json:"created_at"`
	UpdatedAt  time.Time       `json:"updated_at"`
	LeaseUntil *time.Time      `json:"lease_until,omitempty"`
	Progress   string          `json:"progress,omitempty" doc:"What the worker has last said that it is at"`
	ProgressAt *time.Time      `json:"progress_at,omitempty" doc:"When it said so"`
	RunAt      *time.Time      `json:"run_at,omitempty" doc:"Of a scheduled one: when it can be taken"`
}

// UserQueueItems is a page of items.
type UserQueueItems struct {
	Items      []UserQueueItem `json:"items" nullable:"false"`
	NextCursor string          `json:"next_cursor,omitempty" doc:"For the next page; absent from the last. A page found by payload may have fewer items than limit, or none"`
}

func (h *Handler) items(ctx context.Context, in *UserQueueItemsRequest) (UserQueueItems, error) {
	out := UserQueueItems{Items: []UserQueueItem{}}
	if in.State != "" && !slices.Contains(userqueue.States, in.State) {
		return out, &item.Invalid{
			Field: "state", Code: "state_unknown",
			Rule: "must be one of " + strings.Join(userqueue.States, ", "),
		}
	}
	for field, value := range map[string]string{"group": in.Group, "key": in.Key, "payload": in.Payload} {
		if rule := userqueue.CheckText(field, value); rule != nil {
			return out, rule
		}
	}
	var after int64
	if err := reads.Numbers.Read(in.Cursor, &after); err != nil {
		return out, err
	}
	v, err := h.store.Get(ctx, in.Queue)
	if err != nil {
		return out, err
	}
	page := userqueue.Page{
		Queue: v.ID, State: in.State, Group: in.Group, Key: in.Key, After: after, Limit: in.Limit + 1,
		Payload: in.Payload, Retried: in.Retried, Unchanged: time.Duration(in.UnchangedS) * time.Second,
	}
	if page.Visible, err = userqueue.VisibleTo(ctx, h.owners, in.Queue); err != nil {
		return out, err
	}
	items, upTo, err := h.store.Search(ctx, page)
	items, out.NextCursor = reads.Cut(reads.Numbers, items, in.Limit, func(v userqueue.Stored) int64 { return v.ID })
	if out.NextCursor == "" && upTo > 0 {
		out.NextCursor = reads.Numbers.Encode(upTo)
	}
	for _, it := range items {
		out.Items = append(out.Items, itemOf(it))
	}
	return out, err
}

func itemOf(v userqueue.Stored) UserQueueItem {
	return UserQueueItem{
		v.ID, v.State, v.Generation, v.Attempts, v.Priority, v.Key, v.Group, v.Payload, v.Result, v.Worker, v.Error,
		v.CreatedAt.UTC(), v.UpdatedAt.UTC(), v.LeaseUntil, v.Progress, v.ProgressAt, v.RunAt,
	}
}

// UserQueueItemRequest names an item.
type UserQueueItemRequest struct {
	Name
	ID int64 `path:"id" minimum:"1"`
}

// UserQueueItemEvent is one line of an item's history.
type UserQueueItemEvent struct {
	At      time.Time `json:"at"`
	Move    string    `json:"move" enum:"register,start,done,fail,retry,release,again,expire,cancel"`
	Attempt int32     `json:"attempt"`
	Worker  string    `json:"worker,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// UserQueuePayloadChange is a change of an item's payload.
type UserQueuePayloadChange struct {
	At      time.Time       `json:"at"`
	By      string          `json:"by" doc:"Who has made it; empty on a server without tokens"`
	Attempt int32           `json:"attempt" doc:"Attempts made before it"`
	Before  json.RawMessage `json:"before" doc:"The payload until then"`
}

// UserQueueItemHistory is an item and what happened to it.
type UserQueueItemHistory struct {
	UserQueueItem
	History []UserQueueItemEvent     `json:"history" nullable:"false" doc:"What happened to it, in order"`
	Changes []UserQueuePayloadChange `json:"payload_changes" nullable:"false" doc:"The last 20 changes of its payload, in order"`
}

func (h *Handler) item(ctx context.Context, in *UserQueueItemRequest) (UserQueueItemHistory, error) {
	v, err := h.store.Get(ctx, in.Queue)
	if err != nil {
		return UserQueueItemHistory{}, err
	}
	page := userqueue.Page{Queue: v.ID, IDs: []int64{in.ID}, Limit: 1}
	if page.Visible, err = userqueue.VisibleTo(ctx, h.owners, in.Queue); err != nil {
		return UserQueueItemHistory{}, err
	}
	items, err := h.store.Items(ctx, page)
	if err != nil {
		return UserQueueItemHistory{}, err
	}
	if len(items) == 0 {
		return UserQueueItemHistory{}, endpoint.NotFound("id", "must be an item of the queue")
	}
	events, err := h.store.Queues().History(ctx, in.ID)
	if err != nil {
		return UserQueueItemHistory{}, err
	}
	out := UserQueueItemHistory{
		UserQueueItem: itemOf(items[0]), History: []UserQueueItemEvent{}, Changes: []UserQueuePayloadChange{},
	}
	for _, e := range events {
		out.History = append(out.History, UserQueueItemEvent{e.At.UTC(), e.Move, e.Attempt, e.Worker, e.Error})
	}
	changes, err := h.store.Changes(ctx, in.ID)
	for _, c := range changes {
		out.Changes = append(out.Changes, UserQueuePayloadChange{c.At.UTC(), c.By, c.Attempt, c.Before})
	}
	return out, err
}
