package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/query/reads"
)

// knownFor is for how long it serves that a source is not known.
const knownFor = 10 * time.Second

// nearestTime bounds the search for a source's name: what is counted is there already.
const nearestTime = 2 * time.Second

// notes is what there is to say of a source of which nothing was found.
func (s *Service) notes(ctx context.Context, source string) reads.Notes {
	if source == "" {
		return nil
	}
	fresh := func(a cachedAnswer[string]) bool { return s.cfg.Now().Sub(a.At) <= knownFor }
	near, err := s.nearest.Get(ctx, source, fresh, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, min(s.cfg.QueryTimeout, nearestTime))
		defer cancel()
		leave, err := s.analysing.Enter(ctx)
		if err != nil {
			return "", err
		}
		defer leave()
		return s.store.NearestSource(ctx, source)
	})
	switch {
	case err != nil:
		s.deps.Log.Warn("could not look whether a source is known", "error", err)
		return nil
	case near == source:
		return nil
	}
	rule := "is the name of no source that has sent an event"
	if near != "" {
		rule += fmt.Sprintf("; the nearest that has is %s", near)
	}
	return reads.Notes{{Field: "source", Code: "source_unknown", Rule: rule}}
}
