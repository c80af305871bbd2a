package events

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
)

// maxJourneyEvents bounds the events of a journey; GET /events has them all.
const maxJourneyEvents = 1000

// JourneyRequest are the parameters of GET /articles/{url_hash}/journey.
type JourneyRequest struct {
	httpapi.Params
	URLHash string `path:"url_hash" doc:"SHA-256 of the article's URL, hexadecimal"`
}

// Resolve implements huma.Resolver.
func (r *JourneyRequest) Resolve(ctx huma.Context) []error {
	return reads.Resolve(ctx, r.Params, func(*Handler) (f reads.Faults) {
		_, p := parseHash(r.URLHash)
		f.Add(p)
		return f
	})
}

// JourneyStage is a stage that an article has reached, or not.
type JourneyStage struct {
	Name    string     `json:"name" example:"classified"`
	FirstAt *time.Time `json:"first_at" doc:"When the article first reached the stage; null if it has not" example:"2026-02-10T14:30:00Z"`
	Events  uint64     `json:"events" example:"1"`
	Latency *float64   `json:"latency_seconds" doc:"Seconds since the stage before it that the article reached, 0 where clocks disagree; null for the first" example:"12.5"`
}

// Journey is the answer of GET /articles/{url_hash}/journey.
type Journey struct {
	URLHash      string         `json:"url_hash"`
	ArticleURL   string         `json:"article_url" doc:"The URL that url_hash is of" example:"https://example.com/article-123"`
	Domain       string         `json:"domain" example:"example.com"`
	SourceName   string         `json:"source_name" doc:"That of the first event" example:"example_com"`
	CanonicalURL string         `json:"canonical_url,omitempty" doc:"As events named it"`
	TraceIDs     []string       `json:"trace_ids" doc:"Of the events, in their order"`
	Elapsed      *float64       `json:"elapsed_seconds" doc:"From the first of the stages that the article reached to the last, 0 where clocks disagree; null with only one" example:"792"`
	Stages       []JourneyStage `json:"stages" doc:"All stages of the pipeline, in its order"`
	Events       []StoredEvent  `json:"events" doc:"Oldest first; the newest 1000 where there are more, or the newest with 8 MiB of metadata"`
}

func (h *Handler) journey(ctx context.Context, r JourneyRequest) (Journey, error) {
	hash, p := parseHash(r.URLHash)
	if p != nil {
		return Journey{}, p
	}
	leave, err := h.reading.Enter(ctx)
	if err != nil {
		return Journey{}, err
	}
	defer leave()
	rows, reached, err := h.Store.Journey(ctx, hash, maxJourneyEvents)
	if err != nil {
		return Journey{}, err
	}
	if len(rows) == 0 {
		return Journey{}, httpapi.NewProblem(http.StatusNotFound, "no event of an article with this hash is known",
			httpapi.FieldError{
				Field: "url_hash", Code: "article_unknown", Rule: "must be that of an article with events",
			})
	}
	slices.Reverse(rows)
	return newJourney(hash, rows, h.Stages.Names(), reached), nil
}

// newJourney tells of an article's events, oldest first.
func newJourney(hash string, rows []store.Event, stages []string, reached map[string]store.Reached) Journey {
	first := rows[0]
	j := Journey{
		URLHash: hash, ArticleURL: first.URL, Domain: first.Domain, SourceName: first.Source, TraceIDs: []string{},
		Stages: journeyStages(stages, reached),
	}
	j.Elapsed = elapsed(j.Stages)
	for _, row := range rows {
		j.Events = append(j.Events, newEvent(row))
		if row.TraceID != "" && !slices.Contains(j.TraceIDs, row.TraceID) {
			j.TraceIDs = append(j.TraceIDs, row.TraceID)
		}
		if j.CanonicalURL == "" {
			j.CanonicalURL = row.CanonicalURL
		}
	}
	if j.CanonicalURL != "" {
		j.ArticleURL = j.CanonicalURL
	}
	return j
}

// elapsed is the time from the first stage that was reached to the last, nil
// when there is only one.
func elapsed(stages []JourneyStage) *float64 {
	var first, last *time.Time
	for _, stage := range stages {
		switch {
		case stage.FirstAt == nil:
		case first == nil:
			first = stage.FirstAt
		default:
			last = stage.FirstAt
		}
	}
	if last == nil {
		return nil
	}
	seconds := max(0, last.Sub(*first).Seconds())
	return &seconds
}

// journeyStages sets the latencies between the stages that were reached.
func journeyStages(names []string, reached map[string]store.Reached) []JourneyStage {
	out := make([]JourneyStage, 0, len(names))
	var before *time.Time
	for _, name := range names {
		stage := JourneyStage{Name: name}
		if r, ok := reached[name]; ok {
			stage.FirstAt, stage.Events = &r.FirstAt, r.Events
			if before != nil {
				latency := max(0, r.FirstAt.Sub(*before).Seconds())
				stage.Latency = &latency
			}
			before = &r.FirstAt
		}
		out = append(out, stage)
	}
	return out
}
