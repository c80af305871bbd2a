package pipeline

import (
	"slices"

	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/schemas/event"
)

// rolesOf tells which stages of a pipeline statistics are about: those of the
// names crawled, classified, routed and published. In a pipeline without one
// of the outer two, its first and last stages take their places, unless they
// have a role already; a pipeline need not have the inner two.
func rolesOf(stages event.Stages) store.Roles {
	names := stages.Names()
	named := func(name string) string {
		if slices.Contains(names, name) {
			return name
		}
		return ""
	}
	r := store.Roles{
		Crawl: named("crawled"), Classify: named("classified"), Route: named("routed"), Publish: named("published"),
	}
	vacant := func(name string) bool {
		return !slices.Contains([]string{r.Crawl, r.Classify, r.Route, r.Publish}, name)
	}
	if first := names[0]; r.Crawl == "" && vacant(first) {
		r.Crawl = first
	}
	if last := names[len(names)-1]; r.Publish == "" && vacant(last) {
		r.Publish = last
	}
	return r
}
