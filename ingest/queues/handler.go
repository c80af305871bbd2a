package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/queue/queueapi"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

// Handler answers the commands.
type Handler struct {
	store   *userqueue.Store
	hands   *handout.Handout
	reports *userqueue.Reports
	log     *slog.Logger
}

// New returns the handler; Register puts it on a server.
func New(store *userqueue.Store, hands *handout.Handout, log *slog.Logger) (*Handler, error) {
	reports, err := userqueue.NewReports(store, hands)
	if err != nil {
		return nil, fmt.Errorf("queue commands: %w", err)
	}
	return &Handler{store, hands, reports, log}, nil
}

// maxItemsBody is the size in bytes of a request that adds items.
const maxItemsBody = 16 << 20

// Register adds the routes: commands for the scope work, and what operators do
// for admin.
func (h *Handler) Register(api endpoint.API) {
	api = api.At("/queues", "Queues")
	work := endpoint.For(auth.Work)
	admin := endpoint.For(auth.Admin)
	endpoint.Post(api, work("create-queue", "", "Make a queue",
		fmt.Sprintf("Answers 201 when it was made, 200 when it is there already with the same settings, and 409 when "+
			"it has others. There are at most %d queues, and at most %d of one caller without the scope admin; a "+
			"queue beyond is refused with 409.", userqueue.MaxQueues, userqueue.MaxPerMaker)), h.create)
	add := work("add-items", "/{queue}/items", "Add 1 to 10,000 items to a queue",
		"All or none. An item whose key a live item of the queue has is not added; existing names that one.")
	add.MaxBody = maxItemsBody
	add.Errors = append(add.Errors, http.StatusTooManyRequests)
	endpoint.Post(api, add, h.add)
	queueapi.Take[QueueRequest[queueapi.TakeItems]](h.queues(), api,
		work("take-queue-items", "/{queue}/take", "Take items of a queue",
			"The highest priority first, and the oldest of it. They are started for the worker, and for nobody else, "+
				"until it says what became "+
				"of them or the lease ends: then they are new again, with the attempt counted."))
	endpoint.Post(api, work("move-queue-item", "/{queue}/items/{id}/{transition}", "Say what became of an item",
		"done ends it, with a result. fail has it tried again after the backoff of the queue until no attempt is "+
			"left; with permanent, or where the "+
			"queue has no backoff, it fails. again gives it back with the attempt counted, release without. extend "+
			"moves the end of the lease. "+
			"All five hold for items that were pulled over NATS, too, with the generation of the message. done counts "+
			"after the end of the lease, as long as nobody has begun the item since. "+
			"cancel and retry are for items that nobody has to have. A move that the state does not allow answers "+
			"409 with the present state; "+
			"one that was made before answers 200 and changes nothing."), h.move)
	endpoint.Post(api, admin("replay-queue-item", "/{queue}/items/{id}/replay",
		"Try an item again with another payload",
		"One that is failed, dead or cancelled. It is new again, and the payload before stays with it: with who has "+
			"changed it, and when."), h.replay)
	queueapi.Switch[QueueRequest[*queueapi.NoMembers]](h.queues(), api,
		admin("pause-queue", "/{queue}/pause", "Hand out no items of a queue",
			"What is started goes on. The body may be left out."), true)
	queueapi.Switch[QueueRequest[*queueapi.NoMembers]](h.queues(), api,
		admin("resume-queue", "/{queue}/resume", "Hand out items of a queue again",
			"The body may be left out."), false)
	queueapi.Limit[QueueRequest[LimitQueueRequestBody]](h.queues(), api,
		admin("limit-queue", "/{queue}/limits", "Limit what a queue does",
			"Limits that are left out stay as they are."))
	endpoint.Delete(api, admin("delete-queue", "/{queue}", "Delete a queue",
		"With all its items and their history. Answers 409 with their number while items are new, scheduled or "+
			"started, unless force is true. "+
			"A queue that is made with the same name later begins anew."), h.delete)
	endpoint.Post(api, admin("cancel-group", "/{queue}/cancel", "Cancel the items of a group",
		"Those that are new, scheduled or started."), h.cancelGroup)
	endpoint.Post(api, admin("retry-queue-items", "/{queue}/retry-failed", "Bring failed items back to new",
		"The oldest first; dead and cancelled ones only when asked for. An item whose key another live item has "+
			"stays as it is."), h.retryFailed)
}

// Name is the path of a queue.
type Name struct {
	httpapi.Params
	Queue string `path:"queue" example:"mail"`
}

// QueueRequest is a request about a queue, with a document.
type QueueRequest[Doc any] struct {
	Name
	Body Doc
}

// Asks implements queueapi.Request.
func (r *QueueRequest[Doc]) Asks() (string, Doc) { return r.Queue, r.Body }

// queues are the user-defined queues.
func (h *Handler) queues() queueapi.System[LimitQueueRequestBody, UserQueueSettings, TakenFromQueue] {
	return queueapi.System[LimitQueueRequestBody, UserQueueSettings, TakenFromQueue]{
		Queues: h.store.Queues(), Hands: h.hands, Find: h.store.Get, Taken: h.taken,
		Settings: func(v queue.Settings) UserQueueSettings { return settingsOf(v, false) },
	}
}

// UserQueueSettings describe a queue.
type UserQueueSettings struct {
	Name        string    `json:"name" example:"mail"`
	MaxAttempts int       `json:"max_attempts" doc:"Attempts after which an item is dead; 0: any number"`
	LeaseS      float64   `json:"lease_s" doc:"Seconds for which an item is taken by a worker that names no time"`
	BackoffS    []float64 `json:"backoff_s" nullable:"false" doc:"Seconds to wait after each attempt in vain; the last counts for all that follow"`
	userqueue.Limits
	Paused bool `json:"paused"`
	made   bool
}

// Made implements endpoint.Created.
func (s UserQueueSettings) Made() bool { return s.made }

func settingsOf(v queue.Settings, made bool) UserQueueSettings {
	backoff := v.BackoffS
	if backoff == nil {
		backoff = []float64{}
	}
	return UserQueueSettings{v.Name, v.MaxAttempts, v.LeaseS, backoff, userqueue.LimitsOf(v), v.Paused, made}
}

// Defaults of a queue.
const (
	defaultAttempts = 20
	defaultLeaseS   = 30
	defaultKeepS    = 7 * 24 * 60 * 60
	defaultMaxItems = 1_000_000
)

// CreateQueueRequest describes a queue.
type CreateQueueRequest struct {
	Name        string    `json:"name" doc:"1 to 63 lower-case letters, digits, hyphens and underscores" example:"mail"`
	MaxAttempts *int      `json:"max_attempts,omitempty" doc:"Attempts after which an item is dead; 0: any number; default 20"`
	LeaseS      float64   `json:"lease_s,omitempty" doc:"Seconds for which an item is taken by a worker that names no time, 1 to 86,400; default 30"`
	BackoffS    []float64 `json:"backoff_s,omitempty" doc:"Seconds to wait after each attempt in vain; the last counts for all that follow. Without it fail is final"`
	LimitSettings
}

// LimitSettings are limits that are set.
type LimitSettings struct {
	Concurrency *int        `json:"concurrency,omitempty" doc:"Items out at a time, with all workers together; 0, the default: any number"`
	PerGroup    *int        `json:"concurrency_per_group,omitempty" doc:"Items of one group out at a time, to 10,000; 0, the default: any number"`
	RatePerKey  *queue.Rate `json:"rate_per_key,omitempty" doc:"Starts of items with the same key in any so many seconds; a count of 0, the default: any number"`
	RetentionS  *float64    `json:"retention_s,omitempty" doc:"Seconds for which finished items are kept, to 31,536,000; default 604800"`
	MaxItems    *int        `json:"max_items,omitempty" doc:"Live items, and finished items that are kept, 1 to 10,000,000; default 1000000"`
}

// Check implements endpoint.Checked.
func (b *CreateQueueRequest) Check() []error { return faults(userqueue.CheckSettings(b.settings())) }

// settings are those of the request, with the defaults for what it leaves out.
func (b *CreateQueueRequest) settings() queue.Settings {
	want := queue.Settings{Name: b.Name, BackoffS: b.BackoffS}
	want.LeaseS = cmp.Or(b.LeaseS, defaultLeaseS)
	want.MaxAttempts = queueapi.Or(b.MaxAttempts, defaultAttempts)
	want.Concurrency, want.PerGroup = queueapi.Or(b.Concurrency, 0), queueapi.Or(b.PerGroup, 0)
	want.RatePerKey = queueapi.Or(b.RatePerKey, queue.Rate{})
	want.RetentionS, want.MaxItems = queueapi.Or(b.RetentionS, defaultKeepS), queueapi.Or(b.MaxItems, defaultMaxItems)
	return want
}

func (h *Handler) create(ctx context.Context, in *endpoint.Body[CreateQueueRequest]) (UserQueueSettings, error) {
	want := in.Body.settings()
	made, err := h.store.CreateBy(ctx, makerOf(ctx), want)
	if errors.Is(err, userqueue.ErrTooMany) || errors.Is(err, userqueue.ErrShare) {
		return UserQueueSettings{}, httpapi.NewProblem(http.StatusConflict, err.Error(),
			httpapi.FieldError{Field: "name", Code: "too_many", Rule: fmt.Sprintf(
				"must be of one of at most %d queues, and %d of one caller: delete one first", userqueue.MaxQueues,
				userqueue.MaxPerMaker)})
	}
	if errors.Is(err, userqueue.ErrDiffers) {
		return UserQueueSettings{}, httpapi.NewProblem(http.StatusConflict, "the queue exists with other settings",
			httpapi.FieldError{
				Field: "name", Code: "exists",
				Rule: "must not be the name of a queue with other settings",
			})
	}
	if err != nil {
		return UserQueueSettings{}, err
	}
	if err := h.hands.Ensure(ctx, want.Name, item.Seconds(want.LeaseS)); err != nil {
		h.log.Debug("the leader makes the consumer of a new queue", "queue", want.Name, "error", err)
	}
	v, err := h.store.Get(ctx, want.Name)
	return settingsOf(v, made), err
}

// makerOf is who makes a queue: nobody may make so many that others can make none.
func makerOf(ctx context.Context) userqueue.Maker {
	caller := auth.CallerFrom(ctx)
	if caller.Has(auth.Admin) {
		return userqueue.Maker{}
	}
	return userqueue.Maker{Name: caller.Name(), Most: userqueue.MaxPerMaker}
}

// maxFaults bounds how many broken rules a caller is told at once.
const maxFaults = 100

// faults lists the rules that a request breaks, as its Resolve returns them.
func faults(broken []item.Invalid) []error {
	return endpoint.Refused(broken[:min(len(broken), maxFaults)])
}

// AddItemsRequest adds items.
type AddItemsRequest struct {
	Name
	RawBody []byte
	Body    struct {
		Items []userqueue.EnqueueItem `json:"items" nullable:"false" doc:"1 to 10,000 items with a JSON payload of up to 64 KiB each"`
	}
}

// Resolve implements huma.Resolver.
func (r *AddItemsRequest) Resolve(ctx huma.Context) []error {
	return append(r.Params.Resolve(ctx), faults(userqueue.CheckRequest(r.RawBody, r.Body.Items))...)
}

// QueueItemName is an item that was added, or was there.
type QueueItemName struct {
	ID  int64  `json:"id"`
	Key string `json:"key,omitempty"`
}

// AddedItems is the answer.
type AddedItems struct {
	Added    []QueueItemName `json:"added" nullable:"false"`
	Existing []QueueItemName `json:"existing" nullable:"false" doc:"Live items that had the key of one in the request"`
}

// Made implements endpoint.Created.
func (a AddedItems) Made() bool { return len(a.Added) > 0 }

func (h *Handler) add(ctx context.Context, in *AddItemsRequest) (AddedItems, error) {
	found, err := h.store.Enqueue(ctx, in.Queue, in.Body.Items)
	if errors.Is(err, userqueue.ErrFull) {
		return AddedItems{}, httpapi.NewProblem(http.StatusTooManyRequests, err.Error(),
			httpapi.FieldError{
				Field: "items", Code: "queue_full",
				Rule: "must not be more than the queue has room for: see max_items",
			}).WithHeader("Retry-After", "1")
	}
	out := AddedItems{Added: []QueueItemName{}, Existing: []QueueItemName{}}
	for i, a := range found {
		to := &out.Added
		if a.Existing {
			to = &out.Existing
		}
		*to = append(*to, QueueItemName{a.ID, in.Body.Items[i].Key})
	}
	return out, err
}

// LimitQueueRequestBody limits a queue.
type LimitQueueRequestBody struct {
	MaxAttempts *int `json:"max_attempts,omitempty" minimum:"0" maximum:"1000000" doc:"Attempts after which an item is dead; 0: any number"`
	LimitSettings
}

// Resolve implements huma.Resolver.
func (b LimitQueueRequestBody) Resolve(huma.Context) []error {
	return faults(userqueue.CheckLimits(b.Set()))
}

// Set implements queueapi.Limiting.
func (b LimitQueueRequestBody) Set() queue.Set {
	return queue.Set{
		MaxAttempts: b.MaxAttempts, Concurrency: b.Concurrency, PerGroup: b.PerGroup, RatePerKey: b.RatePerKey,
		RetentionS: b.RetentionS, MaxItems: b.MaxItems,
	}
}

// CancelGroupRequest names a group.
type CancelGroupRequest struct {
	Name
	Body struct {
		Group string `json:"group" minLength:"1" maxLength:"255"`
		Limit int    `json:"limit,omitempty" minimum:"1" maximum:"10000" default:"10000"`
	}
}

// Resolve implements huma.Resolver.
func (r *CancelGroupRequest) Resolve(ctx huma.Context) []error {
	return append(r.Params.Resolve(ctx), checkGroup(r.Body.Group)...)
}

func checkGroup(name string) []error {
	if rule := userqueue.CheckText("group", name); rule != nil {
		return faults([]item.Invalid{*rule})
	}
	return nil
}

// MovedCount is how many items moved.
type MovedCount struct {
	Count int `json:"count" doc:"Items that moved; as many as the limit: there may be more"`
}

func (h *Handler) cancelGroup(ctx context.Context, in *CancelGroupRequest) (MovedCount, error) {
	v, err := h.store.Get(ctx, in.Queue)
	if err != nil {
		return MovedCount{}, err
	}
	n, err := h.store.Cancel(ctx, v.ID, in.Body.Group, auth.CallerFrom(ctx).Subject, in.Body.Limit)
	return MovedCount{n}, err
}

// RetryItemsRequest selects failed items.
type RetryItemsRequest struct {
	Name
	Body struct {
		Group string `json:"group,omitempty" doc:"Only of this group"`
		State string `json:"state,omitempty" enum:"failed,dead,cancelled" default:"failed"`
		Limit int    `json:"limit,omitempty" minimum:"1" maximum:"10000" default:"10000"`
	}
}

// Resolve implements huma.Resolver.
func (r *RetryItemsRequest) Resolve(ctx huma.Context) []error {
	return append(r.Params.Resolve(ctx), checkGroup(r.Body.Group)...)
}

// retryPages is how many pages of failed items are looked at: those that stay as they are may be many, and the oldest.
const retryPages = 100

func (h *Handler) retryFailed(ctx context.Context, in *RetryItemsRequest) (out MovedCount, err error) {
	v, err := h.store.Get(ctx, in.Queue)
	if err != nil {
		return out, err
	}
	page := userqueue.Page{Queue: v.ID, State: in.Body.State, Group: in.Body.Group}
	for range retryPages {
		page.Limit = in.Body.Limit - out.Count
		items, err := h.store.Items(ctx, page)
		if err != nil || len(items) == 0 {
			return out, err
		}
		ids := make([]int64, len(items))
		for i, it := range items {
			ids[i] = it.ID
		}
		page.After = ids[len(ids)-1]
		results, err := h.store.Retry(ctx, v.ID, ids)
		if err != nil {
			return out, err
		}
		for _, r := range results {
			if r.Outcome == item.Changed {
				out.Count++
			}
		}
		if out.Count == in.Body.Limit || len(items) < page.Limit {
			break
		}
	}
	return out, nil
}
