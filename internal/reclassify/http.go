package reclassify

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
)

// limit bounds a request: ClickHouse writes the parts again whose rows change.
const limit = 10 * time.Minute

// shown is how many changes of a kind an answer lists.
const shown = 100

// ReclassifyRequest says what to do.
type ReclassifyRequest struct {
	DryRun bool `json:"dry_run,omitempty" doc:"Change nothing, and say what would be changed"`
}

// Reclassified is what differed from the present rules.
type Reclassified struct {
	DryRun     bool          `json:"dry_run" doc:"Whether nothing was changed"`
	Projects   Reclassifieds `json:"projects" doc:"Projects of jobs"`
	Categories Reclassifieds `json:"categories" doc:"Categories of error codes"`
}

// Reclassifieds are changes of one kind.
type Reclassifieds struct {
	Count   int            `json:"count" doc:"How many jobs, or codes, had another value"`
	Rows    int64          `json:"rows" doc:"How many outcomes of items they have"`
	Changes []ReclassifyOf `json:"changes" nullable:"false" doc:"The changes of most outcomes first, up to 100"`
}

// ReclassifyOf is a change of one job or code.
type ReclassifyOf struct {
	Of   string `json:"of" doc:"The job, or the error code" example:"proj_xyz-brand-0"`
	From string `json:"from" doc:"What was stored; empty: none"`
	To   string `json:"to" doc:"What the present rules say; empty: none" example:"proj_xyz"`
	Rows int64  `json:"rows"`
}

// Register adds the route, for admins.
func (s *Store) Register(api endpoint.API) {
	api.Base, api.Tag, api.Limit = "/batches", "Batches", limit
	endpoint.Post(api, endpoint.Operation{
		ID: "reclassify-batches", Path: "/reclassify", Scope: auth.Admin,
		Summary: "Compute the projects and the categories of errors of all stored batches again",
		Text: "Projects follow the names of jobs, and categories the error codes, by the rules of this release. Nothing else " +
			"changes. It may take minutes. After 503, or a lost connection, send the same request again.",
	}, func(ctx context.Context, in *endpoint.Body[ReclassifyRequest]) (out Reclassified, err error) {
		found, err := s.Run(ctx, in.Body.DryRun)
		return Reclassified{in.Body.DryRun, answer(found.Projects), answer(found.Categories)}, err
	})
}

func answer(changes []Change) (a Reclassifieds) {
	a.Count, a.Changes = len(changes), []ReclassifyOf{}
	for i, c := range changes {
		if a.Rows += c.Rows; i < shown {
			a.Changes = append(a.Changes, ReclassifyOf(c))
		}
	}
	return a
}
