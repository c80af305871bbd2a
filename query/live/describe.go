package live

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// Register adds the WebSocket and the event stream to a server.
func (h *Hub) Register(srv *httpapi.Server, a *auth.Auth) {
	srv.Handle(h.views.describeSocket(srv), h.Handler(srv.Draining()), a.RequireSocket(h.views.scopes()...))
	srv.Handle(h.views.describeEvents(srv), h.Events(srv.Draining()), a.RequireEvents(h.views.scopes()...))
}

const socketText = `A WebSocket. ` +
	`Send {"op":"subscribe","id":"a","view":"funnel","period":"today","source":"","tz":"UTC"}; ` +
	`the answer is a snapshot, {"id":"a","seq":1,"epoch":"…","funnel":{…as GET /funnel…}}, ` +
	`and another whole one whenever it changed, the first change at once, then at most ten a second. ` +
	`{"op":"unsubscribe","id":"a"} ends it. ` +
	`A reader that comes again may name "epoch" and "seq" of its last snapshot. It is answered ` +
	`{"id":"a","seq":…,"epoch":"…","unchanged":true} if that is the newest, else with a whole snapshot. ` +
	`With an "epoch", also an empty one, "seq" is the view's own sequence and jumps ` +
	`where a slow reader has skipped; ` +
	`without, it counts the snapshots of the subscription. ` +
	`A request that is not accepted is answered {"id":"a","error":{…a problem document…}}. ` +
	`A browser hands its token over as the query parameter access_token, or as the subprotocols "bearer, <token>". `

const eventsText = `Server-sent events, for readers without WebSockets: each has as data the message of a WebSocket ` +
	`without its id, and as id epoch and sequence. ` +
	`Who comes again with the header Last-Event-ID (or the parameter last_event_id) gets nothing new, ` +
	`or a whole snapshot. ` +
	`A browser hands its token over as the query parameter access_token. `

const (
	tokenText = "The token, where no header can be set"
	lastText  = "The id of the last event that the reader has had"
)

// viewsText lists the views.
func (r registry) viewsText() string {
	var b strings.Builder
	b.WriteString("The views are: ")
	for i, name := range r.names() {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(name + ", " + r[name].Summary)
		if scope := r[name].Scope; scope != auth.Read {
			b.WriteString(" (scope " + string(scope) + ")")
		}
	}
	return b.String() + "."
}

func (r registry) describeSocket(srv *httpapi.Server) *huma.Operation {
	schemas := srv.API().OpenAPI().Components.Schemas
	schemas.Map()["Request"], schemas.Map()["LiveSnapshot"] = r.requestSchema(), r.snapshotSchema(schemas)
	return &huma.Operation{
		OperationID: "live", Method: http.MethodGet, Path: "/live", Tags: []string{"Views"},
		Summary:     "Views as they change, over a WebSocket",
		Description: socketText + r.viewsText(), Security: auth.Security(r.scopes()...),
		Parameters: []*huma.Param{{Name: "access_token", In: "query", Description: tokenText, Schema: text()}},
		Responses: srv.Problems(map[string]*huma.Response{
			"101": {
				Description: "The connection is a WebSocket; its messages are described above",
				Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{OneOf: []*huma.Schema{
					component("Request"), component("LiveSnapshot"),
					schemas.Schema(reflect.TypeFor[LiveError](), true, ""),
				}}}},
			},
		}, http.StatusUnauthorized, http.StatusForbidden, http.StatusUpgradeRequired, http.StatusServiceUnavailable),
	}
}

func (r registry) describeEvents(srv *httpapi.Server) *huma.Operation {
	op := &huma.Operation{
		OperationID: "live-events", Method: http.MethodGet, Path: "/live/sse", Tags: []string{"Views"},
		Summary:     "A view as it changes, as server-sent events",
		Description: eventsText + r.viewsText(), Security: auth.Security(r.scopes()...),
		Parameters: []*huma.Param{
			{Name: "view", In: "query", Description: "Which view; default funnel", Schema: text(r.names()...)},
			{
				Name: "last_event_id", In: "query", Description: lastText + ", where no header can be set",
				Schema: text(),
			},
			{Name: "Last-Event-ID", In: "header", Description: lastText, Schema: text()},
			{Name: "access_token", In: "query", Description: tokenText, Schema: text()},
		},
		Responses: srv.Problems(map[string]*huma.Response{
			"200": {
				Description: "The events, without end",
				Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: component("LiveSnapshot")}},
			},
		}, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable),
	}
	params := r.params()
	for _, name := range slices.Sorted(maps.Keys(params)) {
		s := params[name]
		op.Parameters = append(
			op.Parameters, &huma.Param{Name: name, In: "query", Description: s.Description, Schema: s},
		)
	}
	return op
}

// params describes the parameters of all views. Views that share a name share
// its meaning.
func (r registry) params() map[string]*huma.Schema {
	all := map[string]*huma.Schema{}
	for _, name := range r.names() {
		for _, p := range r[name].Params {
			s := text(p.Enum...)
			if p.Flag {
				s = &huma.Schema{Type: huma.TypeBoolean}
			}
			if s.Description = p.Doc; p.Example != "" {
				s.Examples = []any{p.Example}
			}
			all[p.Name] = s
		}
	}
	return all
}

// requestSchema describes what a client sends.
func (r registry) requestSchema() *huma.Schema {
	members := r.params()
	maps.Copy(members, map[string]*huma.Schema{
		"op":    described(text("subscribe", "unsubscribe"), "What to do"),
		"id":    described(text(), "The client's name for the subscription, up to 64 bytes"),
		"view":  described(text(r.names()...), "Which view; default funnel"),
		"epoch": described(text(), "Of the last snapshot that the reader has; empty: it has none"),
		"seq":   described(&huma.Schema{Type: huma.TypeInteger}, "Of the last snapshot that the reader has"),
	})
	return &huma.Schema{
		Type: huma.TypeObject, Properties: members, Required: []string{"op", "id"}, AdditionalProperties: false,
	}
}

// snapshotSchema describes what a reader gets.
func (r registry) snapshotSchema(schemas huma.Registry) *huma.Schema {
	members := map[string]*huma.Schema{
		"id":        described(text(), "Of the subscription; absent from an event stream"),
		"seq":       described(&huma.Schema{Type: huma.TypeInteger}, "Grows with each snapshot"),
		"epoch":     described(text(), "What seq belongs to: another one after a restart of the server"),
		"unchanged": described(&huma.Schema{Type: huma.TypeBoolean}, "The reader has the newest snapshot"),
	}
	for name, v := range r {
		members[name] = schemas.Schema(v.State, true, "")
	}
	return &huma.Schema{Type: huma.TypeObject, Properties: members, Required: []string{"seq", "epoch"}}
}

func component(name string) *huma.Schema { return &huma.Schema{Ref: "#/components/schemas/" + name} }

func text(values ...string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return s
}

func described(s *huma.Schema, doc string) *huma.Schema {
	s.Description = doc
	return s
}
