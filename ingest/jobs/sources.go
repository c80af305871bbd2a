package jobs

import (
	"context"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/schemas/source"
)

// RegisterSources adds the routes of sources, for callers with the scope admin.
func (h *Handler) RegisterSources(api endpoint.API) {
	api = sources.API(api)
	admin := endpoint.For(auth.Admin)
	endpoint.Post(api, admin("create-source", "", "Make a source",
		"name and url are required. Publishes SOURCE_CREATED.").WithoutCheck(), h.create)
	endpoint.Put(api, admin("update-source", "/{id}", "Change a source",
		"Fields that are left out stay as they are. Publishes SOURCE_UPDATED with what has changed, and "+
			"SOURCE_ENABLED or SOURCE_DISABLED for enabled; nothing, if nothing has changed.").WithoutCheck(), h.update)
	endpoint.DeleteNoContent(api, admin("delete-source", "/{id}", "Delete a source", "Publishes SOURCE_DELETED."),
		h.delete)
	endpoint.Post(api, admin("enable-source", "/{id}/enable", "Enable a source",
		"Publishes SOURCE_ENABLED, unless it is enabled. The body may be left out.").WithoutBody(), h.toggle(true))
	endpoint.Post(api, admin("disable-source", "/{id}/disable", "Disable a source",
		"Publishes SOURCE_DISABLED, unless it is disabled. The body may be left out.").WithoutBody(), h.toggle(false))
	endpoint.Post(api, admin("change-sources", "/bulk", "Enable, disable or delete up to 500 sources",
		"In one transaction. The answer has a result for each member, in their order; those that do not exist keep "+
			"no other back."), h.bulkSources)
	h.registerSourceActs(api)
	h.registerImport(api)
}

// SourceID is the path of a source.
type SourceID struct {
	httpapi.Params
	ID string `path:"id" maxLength:"64" doc:"The source's UUID" example:"0199f0a2-7c1e-7000-8000-000000000001"`
	id uuid.UUID
}

// Resolve implements huma.Resolver.
func (r *SourceID) Resolve(ctx huma.Context) []error {
	return append(r.Params.Resolve(ctx), endpoint.Faults(source.ReadID("id", r.ID, &r.id))...)
}

// CrawlSourceFields are the fields of a source in a request.
type CrawlSourceFields struct{ draft *source.Draft }

// UnmarshalJSON implements json.Unmarshaler. What the fields break is for Resolve
// to say.
func (f *CrawlSourceFields) UnmarshalJSON(text []byte) error {
	f.draft = source.ReadDraft(text)
	return nil
}

// Schema implements huma.SchemaProvider.
func (CrawlSourceFields) Schema(r huma.Registry) *huma.Schema {
	s := huma.SchemaFromType(r, reflect.TypeFor[source.Fields]())
	s.Required = nil
	return s
}

// NewCrawlSource are the fields of a source that is to be made.
type NewCrawlSource struct{ CrawlSourceFields }

// Schema implements huma.SchemaProvider.
func (f NewCrawlSource) Schema(r huma.Registry) *huma.Schema {
	s := f.CrawlSourceFields.Schema(r)
	s.Required = []string{"name", "url"}
	return s
}

// CreateSourceRequest makes a source.
type CreateSourceRequest struct {
	httpapi.Params
	Body NewCrawlSource
}

// Resolve implements huma.Resolver.
func (r *CreateSourceRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	if r.Body.draft != nil { // else there was no JSON
		errs = append(errs, endpoint.Refused(r.Body.draft.BrokenAlone())...)
	}
	return errs
}

// MadeCrawlSource is a source that was made.
type MadeCrawlSource struct{ source.CrawlSource }

// Made implements endpoint.Created.
func (MadeCrawlSource) Made() bool { return true }

func (h *Handler) create(ctx context.Context, in *CreateSourceRequest) (MadeCrawlSource, error) {
	made, err := h.sources.Create(ctx, in.Body.draft.Over(source.New()))
	return MadeCrawlSource{made}, err
}

// UpdateSourceRequest changes a source.
type UpdateSourceRequest struct {
	SourceID
	Body CrawlSourceFields
}

// Resolve implements huma.Resolver.
func (r *UpdateSourceRequest) Resolve(ctx huma.Context) []error {
	errs := r.SourceID.Resolve(ctx)
	if r.Body.draft != nil {
		errs = append(errs, endpoint.Refused(r.Body.draft.Broken())...)
	}
	return errs
}

func (h *Handler) update(ctx context.Context, in *UpdateSourceRequest) (source.CrawlSource, error) {
	return h.sources.Update(ctx, in.id, in.Body.draft)
}

// DeleteSourceRequest deletes a source.
type DeleteSourceRequest struct {
	SourceID
	Reason string `query:"reason" doc:"Why, for the event" default:"user_requested"`
}

// Resolve implements huma.Resolver.
func (r *DeleteSourceRequest) Resolve(ctx huma.Context) []error {
	return append(r.SourceID.Resolve(ctx), checkReason(r.Reason)...)
}

func checkReason(reason string) []error {
	if rule := source.CheckReason(reason); rule != nil {
		return endpoint.Refused([]source.Invalid{*rule})
	}
	return nil
}

func (h *Handler) delete(ctx context.Context, in *DeleteSourceRequest) error {
	return h.sources.Delete(ctx, in.id, in.Reason)
}

// ToggleReason says why a source is enabled or disabled.
type ToggleReason struct {
	Reason string `json:"reason,omitempty" doc:"Why, for the event; default user_requested"`
}

// reason is the one that is given, or the default.
func (t *ToggleReason) reason() string {
	if t == nil || t.Reason == "" {
		return source.UserRequested
	}
	return t.Reason
}

// ToggleSourceRequest enables or disables a source.
type ToggleSourceRequest struct {
	SourceID
	Body *ToggleReason
}

// Resolve implements huma.Resolver.
func (r *ToggleSourceRequest) Resolve(ctx huma.Context) []error {
	return append(r.SourceID.Resolve(ctx), checkReason(r.Body.reason())...)
}

func (h *Handler) toggle(enabled bool) func(context.Context, *ToggleSourceRequest) (source.CrawlSource, error) {
	return func(ctx context.Context, in *ToggleSourceRequest) (source.CrawlSource, error) {
		return h.sources.Toggle(ctx, in.id, enabled, in.Body.reason())
	}
}
