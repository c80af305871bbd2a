package jobs

import (
	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/sources"
)

// Handler answers the commands.
type Handler struct {
	sources *sources.Store
	jobs    *jobs.Store
	acts    *acts.Store
}

// New returns the handler; RegisterSources and RegisterJobs put it on a server.
func New(sources *sources.Store, jobs *jobs.Store, bulk *acts.Store) *Handler {
	return &Handler{sources, jobs, bulk}
}
