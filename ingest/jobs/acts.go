package jobs

import (
	ingestacts "github.com/millrace-io/millrace/ingest/acts"
	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// registerSourceActs adds the route that begins bulk actions on sources.
func (h *Handler) registerSourceActs(api endpoint.API) {
	ingestacts.Begin[BeginSourcesActBody](api, h.acts, endpoint.Operation{
		ID: "begin-sources-act", Path: "/acts", Summary: "Enable, disable or delete all sources that a filter matches",
		Text: "It begins a bulk action, whose record and progress GET /acts/{id} has, and which POST /acts/{id}/stop " +
			"stops. Its members are the sources that match now, the oldest 1,000,000 at most; an empty filter matches " +
			"all. A source that does not match any more when its turn comes is skipped. The events are those of " +
			"/sources/bulk. GET /sources/acts/count with the same filter says the number before.",
	})
}

// BeginSourcesActBody asks for an act on sources.
type BeginSourcesActBody struct {
	sources.Asked
	ToggleReason
}

// Check implements ingestacts.Asks.
func (b BeginSourcesActBody) Check() []source.Invalid {
	broken := ingestacts.OfFilter(b.Filter.Check())
	if rule := source.CheckReason(b.reason()); rule != nil {
		broken = append(broken, *rule)
	}
	return broken
}

// Request implements ingestacts.Asks.
func (b BeginSourcesActBody) Request() acts.Request {
	return acts.Request{
		Subject: sources.Subject, Move: b.Move, Filter: b.Filter, Arguments: sources.Why{Reason: b.reason()},
	}
}

// registerJobActs adds the route that begins bulk actions on jobs.
func (h *Handler) registerJobActs(api endpoint.API) {
	ingestacts.Begin[BeginJobsActBody](api, h.acts, endpoint.Operation{
		ID: "begin-jobs-act", Path: "/acts", Summary: "Do one thing to all jobs that a filter matches",
		Text: "It begins a bulk action, whose record and progress GET /acts/{id} has, and which POST /acts/{id}/stop " +
			"stops. Its members are the jobs that match now, the oldest 1,000,000 at most; an empty filter matches " +
			"all. A job that does not match any more when its turn comes is skipped, and one that is refused has " +
			"failed. GET /jobs/acts/count with the same filter says the number before.",
	})
}

// BeginJobsActBody asks for an act on jobs.
type BeginJobsActBody struct {
	jobs.Asked
	// Override is a pointer: other moves have none.
	Override *JobOverride `json:"override,omitempty" doc:"Of override: the settings, as PUT /jobs/{id}/override takes them"`
}

// Check implements ingestacts.Asks.
func (b BeginJobsActBody) Check() []job.Invalid {
	return append(ingestacts.OfFilter(b.Filter.Check()), b.Override.check(b.Move, "move")...)
}

// Request implements ingestacts.Asks.
func (b BeginJobsActBody) Request() acts.Request {
	r := acts.Request{Subject: jobs.Subject, Move: b.Move, Filter: b.Filter}
	if b.Override != nil {
		r.Arguments = jobs.Settings{Override: b.Override.text}
	}
	return r
}
