package sources

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/schemas/source"
)

// maxBulk is how many sources one request may name.
const maxBulk = 500

// ChangeSourcesRequest does one thing to many sources.
type ChangeSourcesRequest struct {
	httpapi.Params
	Body struct {
		Operation string   `json:"operation" doc:"enable, disable or delete" example:"disable"`
		IDs       []string `json:"ids" nullable:"false" doc:"1 to 500 sources, by their ids"`
		ToggleReason
	}
}

// Resolve implements huma.Resolver.
func (r *ChangeSourcesRequest) Resolve(ctx huma.Context) []error {
	errs := append(r.Params.Resolve(ctx), checkReason(r.Body.reason())...)
	if !slices.Contains(sources.Operations, r.Body.Operation) {
		errs = append(errs, httpapi.FieldError{
			Field: "operation", Code: "operation_unknown",
			Rule: "must be one of " + strings.Join(sources.Operations, ", "),
		})
	}
	if n := len(r.Body.IDs); n < 1 || n > maxBulk {
		errs = append(errs, httpapi.FieldError{
			Field: "ids", Code: "length", Rule: fmt.Sprintf("must be 1 to %d ids", maxBulk),
		})
	}
	return errs
}

// ChangedSource is what became of one source.
type ChangedSource struct {
	ID    string `json:"id"`
	OK    bool   `json:"ok" doc:"Whether it is as it was asked for"`
	Error string `json:"error,omitempty" doc:"Why not"`
}

// ChangedSources has a result for each member of the request, in their order.
type ChangedSources struct {
	Results []ChangedSource `json:"results" nullable:"false"`
}

func (h *Handler) bulk(ctx context.Context, in *ChangeSourcesRequest) (ChangedSources, error) {
	ids := make([]uuid.UUID, 0, len(in.Body.IDs))
	for _, text := range in.Body.IDs {
		if id, ok := source.ParseID(text); ok {
			ids = append(ids, id)
		}
	}
	missing, err := h.store.Bulk(ctx, in.Body.Operation, ids, in.Body.reason())
	out := ChangedSources{make([]ChangedSource, len(in.Body.IDs))}
	for i, text := range in.Body.IDs {
		result := &out.Results[i]
		result.ID = text
		switch id, ok := source.ParseID(text); {
		case !ok:
			result.Error = source.BadID("id").Rule
		case missing[id]:
			result.Error = sources.ErrNotFound.Error()
		default:
			result.OK = true
		}
	}
	return out, err
}
