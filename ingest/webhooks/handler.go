package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

// Handler answers the commands.
type Handler struct {
	guard Guard
	store *Store
	own   *userqueue.Store
}

// New returns the handler; Register puts it on a server.
func New(guard Guard, store *Store, own *userqueue.Store) (*Handler, error) {
	if guard.Guardian == nil || store == nil || own == nil {
		return nil, errors.New("webhook commands: a guard, the webhooks and the queues are needed")
	}
	return &Handler{guard, store, own}, nil
}

// Register adds the routes, for admins: a webhook gets the items of all users.
func (h *Handler) Register(api endpoint.API) {
	api = api.At("/queues", "Queues")
	api.Known = known
	admin := endpoint.For(auth.Admin)
	endpoint.Put(api, admin("set-queue-webhook", "/{queue}/webhook", "Send the items of a queue to an address",
		"In place of the webhook before. Each item is sent as a POST that is signed as Standard Webhooks are, and the "+
			"status of the answer says what becomes of it. The secret is kept where none is given."), h.set)
	endpoint.Get(api, admin("get-queue-webhook", "/{queue}/webhook", "The webhook of a queue", "Without its secret."), h.get)
	endpoint.DeleteNoContent(api, admin("delete-queue-webhook", "/{queue}/webhook", "Send the items of a queue nowhere",
		"Requests that are under way end, and count."), h.remove)
}

func known(err error) error {
	if errors.Is(err, ErrNone) {
		return endpoint.NotFound("queue", "must be a queue that has a webhook")
	}
	return nil
}

// WebhookQueue names a queue.
type WebhookQueue struct {
	httpapi.Params
	Queue string `path:"queue" example:"enrich"`
}

// QueueWebhook is where the items of a queue are sent.
type QueueWebhook struct {
	Queue       string    `json:"queue" example:"enrich"`
	URL         string    `json:"url" example:"https://shop.example/enrich"`
	Secret      string    `json:"secret,omitempty" doc:"Signs requests. Only where it was made for this request: it is not told again" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`
	TimeoutS    float64   `json:"timeout_s" doc:"Seconds that an answer may take"`
	Concurrency int       `json:"concurrency" doc:"Requests that each server sends at a time, at most"`
	ChangedAt   time.Time `json:"changed_at"`
}

func webhookOf(w Webhook) QueueWebhook {
	return QueueWebhook{
		Queue: w.Queue, URL: w.URL, TimeoutS: w.Timeout.Seconds(), Concurrency: w.Concurrency, ChangedAt: w.ChangedAt.UTC(),
	}
}

// SetQueueWebhookRequest says where the items of a queue are sent.
type SetQueueWebhookRequest struct {
	WebhookQueue
	Body   SetQueueWebhook
	secret []byte
}

// SetQueueWebhook is an address with what goes with it.
type SetQueueWebhook struct {
	URL         string  `json:"url" doc:"An https or http URL in a public network, or in one that the configuration allows" example:"https://shop.example/enrich"`
	Secret      string  `json:"secret,omitempty" doc:"whsec_ and 24 to 64 bytes in base64. Default: that of the webhook before, or one that is made"`
	TimeoutS    float64 `json:"timeout_s,omitempty" minimum:"1" maximum:"300" default:"30" doc:"Seconds that an answer may take"`
	Concurrency int     `json:"concurrency,omitempty" minimum:"1" maximum:"64" default:"8" doc:"Requests that each server sends at a time, at most"`
}

// Resolve implements huma.Resolver.
func (r *SetQueueWebhookRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	if r.Body.Secret == "" {
		return errs
	}
	var rule string
	if r.secret, rule = ParseSecret(r.Body.Secret); rule != "" {
		errs = append(errs, httpapi.FieldError{Field: "secret", Code: "secret", Rule: rule})
	}
	return errs
}

func (h *Handler) set(ctx context.Context, in *SetQueueWebhookRequest) (out QueueWebhook, err error) {
	if broken := h.guard.CheckURL(in.Body.URL); broken != nil {
		return out, endpoint.BadRequest(*broken)
	}
	q, err := h.own.Get(ctx, in.Queue)
	if err != nil {
		return out, err
	}
	w, fresh, err := h.store.Set(ctx, q.ID, Webhook{
		URL: in.Body.URL, Secret: in.secret, Timeout: item.Seconds(in.Body.TimeoutS),
		Concurrency: in.Body.Concurrency,
	})
	if err != nil {
		return out, fmt.Errorf("%s: %w", in.Queue, err)
	}
	if out = webhookOf(w); fresh {
		out.Secret = SecretText(w.Secret)
	}
	return out, nil
}

// QueueWebhookRequest names the webhook of a queue.
type QueueWebhookRequest struct{ WebhookQueue }

func (h *Handler) get(ctx context.Context, in *QueueWebhookRequest) (out QueueWebhook, err error) {
	q, err := h.own.Get(ctx, in.Queue)
	if err != nil {
		return out, err
	}
	w, err := h.store.Get(ctx, q.ID)
	return webhookOf(w), err
}

func (h *Handler) remove(ctx context.Context, in *QueueWebhookRequest) error {
	q, err := h.own.Get(ctx, in.Queue)
	if err != nil {
		return err
	}
	return h.store.Remove(ctx, q.ID)
}
