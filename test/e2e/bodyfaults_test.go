package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// faultyBody is a document that breaks rules of an operation, and the fields that do so.
type faultyBody struct {
	path   string // of the operation with its variables filled in; empty: as it is described
	body   string
	fields string
	open   bool // other members may be there, of which Millrace reads nothing
}

const anyID = "0199f0a2-7c1e-7000-8000-000000000001"

// faultyBodies are those of all operations that take a document.
var faultyBodies = map[string]faultyBody{
	"post /acts": {body: `{"move":"retry","filter":{"queue":"mail","state":"new","group":"g\u0000"}}`, fields: "state group"},

	"post /batches":            {body: `{"job_id":"j","batch_index":-1,"items":[]}`, fields: "batch_index", open: true},
	"post /batches/reclassify": {body: `{"dry_run":1}`, fields: "dry_run"},
	"put /batches/modes":       {body: `{"new_mode_share":2,"new_mode":1}`, fields: "new_mode_share new_mode"},

	"post /ingestion/scan": {body: `{}`},

	"post /uploads":                {body: `{"reference":"","encoding":7,"hold":"maybe"}`, fields: "reference encoding hold"},
	"post /uploads/{jobId}/cancel": {path: "/uploads/x/cancel", body: `{}`},
	"post /uploads/{jobId}/pause":  {path: "/uploads/x/pause", body: `{}`},
	"post /uploads/{jobId}/reprocess": {
		path: "/uploads/x/reprocess", body: `{"scope":"all","statuses":["PENDING"],"itemIds":["y-1"]}`,
		fields: "scope statuses[0] itemIds itemIds[0]",
	},
	"post /uploads/{jobId}/resume": {path: "/uploads/x/resume", body: `{"encoding":"klingon"}`, fields: "encoding"},

	"post /crawl-errors/retry": {body: `{"category":"luck","batch_index":1}`, fields: "category job_id"},

	"post /dlq/purge":  {body: `{"filter":{"until":"x"},"limit":0}`, fields: "limit until"},
	"post /dlq/replay": {body: `{"filter":{"since":"x"},"limit":0}`, fields: "limit since"},

	"post /events":       {body: `{"stage":"printed","source_name":""}`, fields: "stage source_name occurred_at"},
	"post /events/batch": {body: `{"events":[{"stage":"printed"}]}`, fields: "events[0].stage events[0].occurred_at"},

	"post /jobs":                  {body: `{"source_id":"x","priority":101}`, fields: "source_id priority"},
	"post /jobs/acts":             {body: `{"move":"mend","filter":{"source_id":"x"}}`, fields: "move filter.source_id"},
	"post /jobs/bulk":             {body: `{"operation":"x","ids":[]}`, fields: "operation ids"},
	"post /jobs/migrate":          {body: `{}`},
	"post /jobs/reconcile":        {body: `{"dry_run":1}`, fields: "dry_run"},
	"post /jobs/{id}/force-run":   {path: "/jobs/x/force-run", body: `{}`, fields: "id"},
	"post /jobs/{id}/pause":       {path: "/jobs/x/pause", body: `{}`, fields: "id"},
	"post /jobs/{id}/resume":      {path: "/jobs/x/resume", body: `{}`, fields: "id"},
	"post /jobs/{id}/skip-next":   {path: "/jobs/x/skip-next", body: `{}`, fields: "id"},
	"post /jobs/{id}/unskip-next": {path: "/jobs/x/unskip-next", body: `{}`, fields: "id"},
	"put /jobs/{id}/override":     {path: "/jobs/x/override", body: `{"max_attempts":0}`, fields: "id max_attempts"},
	"post /sources":               {body: `{"name":"","url":"ftp://x"}`, fields: "name url"},
	"post /sources/acts":          {body: `{"move":"mend","filter":{"priority":"lowest"}}`, fields: "move filter.priority"},
	"post /sources/bulk":          {body: `{"operation":"x","ids":[]}`, fields: "operation ids"},
	"put /sources/{id}":           {path: "/sources/x", body: `{"max_depth":0}`, fields: "id max_depth"},
	"post /sources/{id}/disable":  {path: "/sources/" + anyID + "/disable", body: `{"reason":"\u0000"}`, fields: "reason"},
	"post /sources/{id}/enable":   {path: "/sources/" + anyID + "/enable", body: `{"reason":"\u0000"}`, fields: "reason"},
	"post /pipeline/files/purge":  {body: `{"older_than_s":1,"limit":0}`, fields: "older_than_s limit"},
	"post /queues":                {body: `{"name":"Mail!","lease_s":0.5}`, fields: "name lease_s"},
	"post /queues/{queue}/cancel": {path: "/queues/mail/cancel", body: `{"group":"g\u0000"}`, fields: "group"},
	"post /queues/{queue}/pause":  {path: "/queues/mail/pause", body: `{}`},
	"post /queues/{queue}/resume": {path: "/queues/mail/resume", body: `{}`},
	"post /queues/{queue}/take":   {path: "/queues/mail/take", body: `{"worker":"nats","limit":0}`, fields: "worker limit"},
	"put /queues/{queue}/webhook": {path: "/queues/mail/webhook", body: `{"url":"https://x.example/","concurrency":0,"timeout_s":0}`, fields: "concurrency timeout_s"},
	"post /queues/{queue}/limits": {path: "/queues/mail/limits", body: `{"max_items":0}`, fields: "max_items"},
	"post /pipeline/files/{filename}/priority": {
		path: "/pipeline/files/a%2Fb/priority", body: `{"priority":10}`, fields: "filename priority",
	},
	"post /pipeline/files/register": {body: `{"filename":"a/b","shards":[-1]}`, fields: "filename shards[0]"},
	"post /pipeline/queues/{stage}/limits": {
		path: "/pipeline/queues/shard-worker/limits", body: `{"concurrency":-1}`, fields: "concurrency",
	},
	"post /pipeline/queues/{stage}/pause":  {path: "/pipeline/queues/x/pause", body: `{}`},
	"post /pipeline/queues/{stage}/resume": {path: "/pipeline/queues/x/resume", body: `{}`},
	"post /pipeline/queues/{stage}/take": {
		path: "/pipeline/queues/x/take", body: `{"worker":"nats","limit":0}`, fields: "stage worker limit",
	},
	"post /pipeline/stages/event-ingest/done": {body: `{"filename":"a/b","delay_s":-1}`, fields: "filename delay_s"},
	"post /pipeline/stages/{stage}/retry-failed": {
		path: "/pipeline/stages/x/retry-failed", body: `{"delay_s":-1,"limit":0}`, fields: "stage delay_s limit",
	},
	"post /pipeline/stages/{stage}/{transition}": {
		path: "/pipeline/stages/x/start", body: `{"filename":"a/b","shard":-1}`, fields: "stage filename shard",
	},
	"post /pipeline/stages/{stage}/{transition}/bulk": {
		path: "/pipeline/stages/x/start/bulk", body: `{"items":[],"lease_s":0}`, fields: "stage items lease_s",
	},
	"post /queues/{queue}/items": {
		path: "/queues/mail/items", body: `{"items":[{"priority":10},{"key":"a\u0000"}]}`,
		fields: "items[0].priority items[1].key",
	},
	"post /queues/{queue}/items/{id}/replay": {
		path: "/queues/mail/items/0/replay", body: `{"generation":0,"payload":"\u0000"}`, fields: "id generation payload",
	},
	"post /queues/{queue}/items/{id}/{transition}": {
		path: "/queues/mail/items/1/dne", body: `{"lease_s":0,"worker":"a\u0000"}`, fields: "transition lease_s worker",
	},
	"post /queues/{queue}/retry-failed": {
		path: "/queues/mail/retry-failed", body: `{"state":"x","group":"g\u0000"}`, fields: "state group",
	},
}

// TestBodyFaults: of each operation that takes a document, an answer names a member that it
// does not have, unless it is open, together with all other rules that the document breaks.
func TestBodyFaults(t *testing.T) {
	t.Parallel()
	s := up(t)
	for at, members := range s.operationsWithBody(t) {
		c, known := faultyBodies[at]
		if !known {
			t.Errorf("%s has no faulty document here", at)
			continue
		}
		method, path, _ := strings.Cut(at, " ")
		if c.path != "" {
			path = c.path
		}
		body := strings.Replace(strings.Replace(c.body, "{", `{"unknwon":1,`, 1), ",}", "}", 1)
		status, answer := s.with(t, "", strings.ToUpper(method), path, body)
		var p problem
		if err := json.Unmarshal(answer, &p); err != nil || status != http.StatusBadRequest {
			t.Errorf("%s %s: %d %.300s, want 400", at, body, status, answer)
			continue
		}
		rules := map[string]string{}
		for _, e := range p.Errors {
			rules[e.Field] = e.Rule
		}
		want := strings.Fields(c.fields)
		if !c.open {
			want = append(want, "unknwon")
		}
		for _, field := range want {
			if rules[field] == "" {
				t.Errorf("%s %s does not name %s: %.600s", at, body, field, answer)
			}
		}
		if members > 0 && !c.open && !strings.Contains(rules["unknwon"], "nearest is ") {
			t.Errorf("%s: %q names no member that is near", at, rules["unknwon"])
		}
	}
}

// operationsWithBody lists the operations that take a JSON document, as the API describes
// them, with how many members it may have.
func (s *server) operationsWithBody(t *testing.T) map[string]int {
	t.Helper()
	resp, err := http.Get(s.url("/openapi.json"))
	_, _, text := s.read(resp, err)
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]shape }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for path, methods := range doc.Paths {
		for _, method := range []string{"post", "put", "patch", "delete"} {
			var op struct {
				RequestBody struct {
					Content map[string]struct{ Schema shape }
				} `json:"requestBody"`
			}
			if methods[method] == nil {
				continue
			}
			if err := json.Unmarshal(methods[method], &op); err != nil {
				t.Fatal(err)
			}
			content, takes := op.RequestBody.Content["application/json"]
			if !takes {
				continue
			}
			if name, ok := strings.CutPrefix(content.Schema.Ref, "#/components/schemas/"); ok {
				content.Schema = doc.Components.Schemas[name]
			}
			all[method+" "+path] = len(content.Schema.Properties)
		}
	}
	if len(all) != len(faultyBodies) {
		t.Errorf("%d operations take a document, and %d have a faulty one here", len(all), len(faultyBodies))
	}
	return all
}
