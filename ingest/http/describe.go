package ingesthttp

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// describe describes the routes. They are plain handlers because they publish the
// text of an event as it came.
func (h *Handler) describe(s *httpapi.Server) (one, many, schema *huma.Operation) {
	doc := s.API().OpenAPI()
	// OpenAPI 3.1 schemas are JSON Schema, so the published one is put in as
	// it stands.
	doc.Components.Schemas.Map()["Event"] = &huma.Schema{Extensions: h.schema}
	event := &huma.Schema{Ref: "#/components/schemas/Event"}
	lines := &huma.MediaType{
		Schema: &huma.Schema{Type: huma.TypeString, Description: "One event as JSON on each line"},
		Example: `{"article_url":"https://example.com/a","source_name":"example_com","stage":"crawled",` +
			`"occurred_at":"2026-02-10T14:30:00Z","service_name":"crawler"}` + "\n",
	}
	tooMany := MaxEvents
	list := &huma.Schema{
		Type: huma.TypeObject, Required: []string{"events"},
		Properties: map[string]*huma.Schema{"events": {
			Type: huma.TypeArray, Items: event, MinItems: new(int),
			MaxItems: &tooMany,
		}},
	}
	*list.Properties["events"].MinItems = 1
	body := func(json *huma.Schema) *huma.RequestBody {
		return &huma.RequestBody{
			Required: true,
			Content:  map[string]*huma.MediaType{"application/json": {Schema: json}, linesType: lines},
		}
	}
	batchResult := s.Answer("All were duplicates", BatchResult{})
	one = &huma.Operation{
		OperationID: "post-event", Method: http.MethodPost, Path: "/events", Tags: []string{"events"},
		Summary: "Publish an event",
		Description: "Answers when the event is on disk. " +
			"Members that are no fields of an event are refused. " +
			"Metadata is free-form, but a name that is nearly that of a field which views use is refused. " +
			"JSON lines are answered as by /events/batch. The body may be gzip, and has at most 8 MiB. " +
			"A repeat that the projector does not know yet may be answered as accepted; it counts once all the same. " +
			"409: an event of another stage or service has the key and the URL.",
		Security: auth.Security(auth.EventsWrite), RequestBody: body(event),
		Responses: s.Problems(map[string]*huma.Response{
			"201": either(s, "The event is new, or at least one of the lines"),
			"200": either(s, "It is a duplicate, or all lines are"),
		}, 400, 401, 403, 408, 409, 413, 415, 429, 503),
	}
	many = &huma.Operation{
		OperationID: "post-events", Method: http.MethodPost, Path: "/events/batch", Tags: []string{"events"},
		Summary: "Publish many events",
		Description: "Up to 10,000 events or 8 MiB, gzip or not. Valid events are taken even when others are not. " +
			"A repeat that the projector does not know yet may be counted as accepted here; it counts once all " +
			"the same. " +
			"When none is valid, the problem document also has the members of a BatchResult. After 503 send the " +
			"same batch again.",
		Security: auth.Security(auth.EventsWrite), RequestBody: body(list),
		Responses: s.Problems(map[string]*huma.Response{
			"201": s.Answer("At least one event is new", BatchResult{}), "200": batchResult,
		}, 400, 401, 403, 408, 413, 415, 429, 503),
	}
	schema = &huma.Operation{
		OperationID: "event-schema", Method: http.MethodGet, Path: "/schemas/event.json", Tags: []string{"events"},
		Security: httpapi.Open,
		Summary:  "The JSON Schema of an event",
		Responses: map[string]*huma.Response{"200": {
			Description: "The schema",
			Content:     map[string]*huma.MediaType{"application/json": {}},
		}},
	}
	return one, many, schema
}

// either describes the answer to an event, which is that to a batch where there were lines.
func either(s *httpapi.Server, description string) *huma.Response {
	answer, lines := s.Answer(description, Stored{}), s.Answer(description, BatchResult{})
	content := answer.Content["application/json"]
	content.Schema = &huma.Schema{OneOf: []*huma.Schema{content.Schema, lines.Content["application/json"].Schema}}
	return answer
}
