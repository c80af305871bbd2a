package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
)

// Health is the answer of /health.
type Health struct {
	Status  string `json:"status" enum:"ok,damaged" example:"ok"`
	Version string `json:"version" example:"1.0.0"`
	// Warnings are what the process is configured to risk, and what is wrong with stored
	// data.
	Warnings []string `json:"warnings,omitempty" doc:"What the configuration puts at risk, and what is missing from stored data"`
	// Damage is what was found to be lost, until somebody accepts it.
	Damage []string `json:"damage,omitempty" doc:"What stored data was found to be lost and is not accepted yet"`
	// Off is what does not work, while everything else does.
	Off []Off `json:"off,omitempty" doc:"Systems, and parts of systems, that do not work, while everything else does"`
	// Confinement is what the operating system confines the embedded engines by.
	Confinement map[string]string `json:"confinement,omitempty" doc:"What the operating system confines each embedded engine by" example:"{\"clickhouse\":\"landlock 7, seccomp\"}"`
}

// Off is a system that does not work, or a part of one, and why.
type Off struct {
	System string     `json:"system" example:"jobs"`
	Part   string     `json:"part,omitempty" doc:"The part that fails, and is tried again until it works. Without it, all of the system is off" example:"events"`
	Reason string     `json:"reason" doc:"Why it is off"`
	Since  *time.Time `json:"since,omitempty" doc:"When the part failed first"`
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, s.Health())
}

// Health is what /health says.
func (s *Server) Health() Health {
	h := Health{Status: "ok", Version: s.cfg.Version, Warnings: s.cfg.Warnings}
	if s.warnings != nil {
		h.Warnings = slices.Concat(h.Warnings, s.warnings())
	}
	if s.cfg.Damage != nil {
		if h.Damage = s.cfg.Damage(); len(h.Damage) > 0 {
			h.Status = "damaged"
		}
	}
	if s.cfg.Off != nil {
		h.Off = s.cfg.Off()
	}
	if s.cfg.Confinement != nil {
		h.Confinement = s.cfg.Confinement()
	}
	return h
}

// openAPI marshals on each call: routes may register until the server runs,
// and the description is asked for rarely.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	text, err := json.Marshal(s.api.OpenAPI())
	if err == nil {
		text, err = describeNulls(text, s.api.OpenAPI().Components.Schemas)
	}
	if err != nil {
		WriteProblem(w, Internal(fmt.Errorf("marshal the OpenAPI description: %w", err)))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// exposeCause hands what a problem hides to the frame's log.
func exposeCause(ctx huma.Context, _ string, v any) (any, error) {
	if p, ok := v.(*Problem); ok && p.cause != nil {
		_, w := humachi.Unwrap(ctx)
		reportCause(w, p.cause)
	}
	return v, nil
}

// metricNames is the parameter by which the handler of metrics selects some.
const metricNames = "name[]"

// describeRoot adds the routes outside of the base path, which the server
// list of their own path items places.
func describeRoot(doc *huma.OpenAPI) {
	add := func(path, id, summary, contentType string, answers map[string]*huma.Response, refusals ...int) {
		for _, status := range append(refusals, http.StatusBadRequest, http.StatusForbidden) {
			answers[strconv.Itoa(status)] = problemResponse(doc, status)
		}
		for _, r := range answers {
			if r.Content == nil {
				r.Content = map[string]*huma.MediaType{contentType: {}}
			}
		}
		if doc.Paths == nil {
			doc.Paths = map[string]*huma.PathItem{}
		}
		doc.Paths[path] = &huma.PathItem{
			Servers: []*huma.Server{{URL: "."}},
			Get: &huma.Operation{
				OperationID: id, Summary: summary, Tags: []string{"service"}, Responses: answers, Security: Open,
			},
		}
	}
	schema := func(v any) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: schemaOf(doc, v)}}
	}
	add("/health", "health", "Whether the process runs", "", map[string]*huma.Response{
		"200": {Description: "It runs", Content: schema(Health{})},
	})
	add("/ready", "ready", "Whether the process can do its work, and which dependency is there", "",
		map[string]*huma.Response{
			"200": {Description: "It can: every dependency that it needs is up", Content: schema(Readiness{})},
			"503": {Description: "One that it needs is down", Content: schema(Readiness{})},
		})
	add("/metrics", "metrics", "Metrics for Prometheus", "text/plain",
		map[string]*huma.Response{"200": {Description: "The metrics"}}, http.StatusUnauthorized)
	doc.Paths["/metrics"].Get.Parameters = []*huma.Param{{
		Name: metricNames, In: "query", Description: "Only metrics of this name; it may stand several times",
		Schema: &huma.Schema{Type: huma.TypeString},
	}}
}
