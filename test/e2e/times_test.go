package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/schemas/stream"
)

// badTimes are times that some parsers take and JSON cannot say, in UTC.
var badTimes = []string{
	"9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999999999-00:01", "0001-01-01T00:00:00+23:59",
	"0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "infinity", "-infinity", "now", "2026-02-30T00:00:00Z",
	"9999-12-31T23:59:60Z", "2026-01-01T00:00:00+25:00",
}

// testTimes: no time, wherever it is sent, makes the server fail or stop answering others,
// and one outside of the years 1 to 9999 is refused by the name of its field.
func testTimes(t *testing.T, s *server) {
	admin := token(t, "admin")
	ask := func(method, target, body string) (int, []byte) {
		return s.patient(t, method+" "+target, func() (int, []byte) { return s.with(t, admin, method, target, body) })
	}
	if status, body := ask(http.MethodPost, "/queues", `{"name":"times","max_items":1000}`); status >= 300 {
		t.Fatalf("make a queue: status %d: %s", status, body)
	}
	doc := s.openapi(t)
	sent := 0
	for path, item := range doc.Paths {
		for method, op := range item {
			target := pathOf(strings.ReplaceAll(path, "{queue}", "times"), "shard-worker")
			if strings.Contains(target, "/live") || strings.Contains(target, "transitions") || !strings.HasPrefix(path, "/") ||
				op.OperationID == "" || slices.Contains([]string{"/health", "/ready", "/metrics"}, path) {
				continue
			}
			method := strings.ToUpper(method)
			for _, bad := range badTimes {
				for _, query := range op.timeQueries(bad) {
					sent++
					if status, body := ask(method, target+"?"+query, "{}"); status >= 500 || !json.Valid(body) && isJSON(op, status) {
						t.Errorf("%s %s?%s: status %d: %.300s", method, target, query, status, body)
					}
				}
				for _, field := range doc.timesIn(op.body(), nil) {
					sent++
					text, err := json.Marshal(doc.sample(op.body(), field, bad))
					if err != nil {
						t.Fatal(err)
					}
					status, body := ask(method, target, string(text))
					if status < 400 || status >= 500 || !strings.Contains(string(body), field[len(field)-1]) {
						t.Errorf("%s %s of %s: status %d: %.300s, want a rule that %v breaks", method, target, text, status, body, field)
					}
				}
			}
		}
	}
	t.Logf("%d requests", sent)
	if sent < 20*len(badTimes) {
		t.Errorf("only %d requests were sent: the description names fewer times than there are", sent)
	}
	s.badTimesInMessages(t)
	s.listsAnswer(t, doc)
}

// badTimesInMessages sends them by all messages that hold a time. Each is a dead letter, or
// refused.
func (s *server) badTimesInMessages(t *testing.T) {
	t.Helper()
	nc := s.nats()
	for _, bad := range badTimes {
		reply, err := nc.Request(stream.WorkEnqueue, []byte(fmt.Sprintf(
			`{"queue":"times","items":[{"payload":1,"run_at":%q}]}`, bad)), waitLimit)
		var answer struct {
			Error   string
			Refused bool
		}
		if err != nil || json.Unmarshal(reply.Data, &answer) != nil || !answer.Refused || answer.Error == "" {
			t.Errorf("an item at %s: %v, %s", bad, err, reply.Data)
		}
		for subject, text := range map[string]string{
			"sources.SOURCE_CREATED": fmt.Sprintf(`{"event_id":%q,"event_type":"SOURCE_CREATED","source_id":%q,"timestamp":%q,`+
				`"payload":{"name":"times","url":"https://example.com"}}`, uuid.New(), uuid.New(), bad),
			"events.crawled.00": valid(map[string]any{"occurred_at": bad}),
			"shards.register":   fmt.Sprintf(`{"filename":"20250101000000","shards":1,"created_at":%q}`, bad),
		} {
			m := &nats.Msg{Subject: subject, Data: []byte(text), Header: nats.Header{"Nats-Msg-Id": {uuid.NewString()}}}
			if _, err := nc.RequestMsg(m, waitLimit); err != nil {
				t.Errorf("%s: %v", subject, err)
			}
		}
	}
}

// listsAnswer wants every list to be answered by a whole document.
func (s *server) listsAnswer(t *testing.T, doc openapi) {
	t.Helper()
	admin := token(t, "admin")
	for path, item := range doc.Paths {
		op, ok := item["get"]
		if !ok || strings.Contains(path, "/live") || strings.Contains(path, "transitions") ||
			slices.Contains([]string{"/health", "/ready", "/metrics"}, path) {
			continue
		}
		target := pathOf(strings.ReplaceAll(path, "{queue}", "times"), "shard-worker")
		var query url.Values = map[string][]string{}
		for _, p := range op.Parameters {
			if p.In == "query" && p.Required {
				query.Set(p.Name, map[bool]string{true: "2026-01-01T00:00:00Z", false: "2026-01-02T00:00:00Z"}[p.Name == "from"])
			}
		}
		status, body := s.get(t, admin, target+"?"+query.Encode())
		if status >= 500 || !json.Valid(body) && isJSON(op, status) {
			t.Errorf("GET %s: status %d: %.300s", target, status, body)
		}
	}
}

// TestStoredTimes: rows with times that JSON cannot say, which an older release stored, break
// no answer.
func TestStoredTimes(t *testing.T) {
	t.Parallel()
	s := up(t)
	made := s.createSource(t, "stored")
	poll(t, waitLimit, "the job of the source", func() bool {
		return len(get[struct{ Items []any }](s, "/events/log", "source_id="+made.ID).Items) > 0
	})
	for _, made := range [][2]string{
		{"/queues", `{"name":"times","max_items":1000}`},
		{"/queues/times/items", `{"items":[{"payload":1},{"payload":2,"run_at":"2999-01-01T00:00:00Z"}]}`},
		{shardsAPI + "/files/register", `{"filename":"20250101000000","shards":[0,1]}`},
	} {
		poll(t, waitLimit, "POST "+made[0], func() bool {
			status, _, answer := s.post(made[0], "application/json", made[1])
			if status >= 400 && status != http.StatusServiceUnavailable {
				t.Fatalf("POST %s: %d %s", made[0], status, answer)
			}
			return status < 300
		})
	}
	db, err := pgx.Connect(t.Context(), s.postgresDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	rows, err := db.Query(t.Context(), `SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind = 'r' AND a.atttypid = 'timestamptz'::regtype
			AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Table, Column string }])
	if err != nil {
		t.Fatal(err)
	}
	doc, changed := s.openapi(t), 0
	for _, c := range columns {
		tag, err := db.Exec(t.Context(), fmt.Sprintf(
			`UPDATE millrace.%s SET %[2]s = '10000-01-01T00:00:00Z' WHERE %[2]s IS NOT NULL`, c.Table, c.Column))
		if err != nil {
			t.Logf("%s.%s: %v", c.Table, c.Column, err)
			continue
		}
		if changed += int(tag.RowsAffected()); tag.RowsAffected() > 0 {
			t.Logf("%s.%s: %d", c.Table, c.Column, tag.RowsAffected())
		}
	}
	if changed < 10 {
		t.Fatalf("only %d times were changed", changed)
	}
	s.listsAnswer(t, doc)
	log := get[struct {
		Items []struct{ Timestamp string }
	}](s, "/events/log", "")
	if len(log.Items) == 0 || log.Items[0].Timestamp != "9999-12-31T23:59:59.999999Z" {
		t.Errorf("the log of events: %+v", log)
	}
}

func isJSON(op apiOperation, status int) bool {
	for content := range op.Responses[fmt.Sprint(status)].Content {
		if content == "application/json" {
			return true
		}
	}
	return false
}

// openapi is what this test reads of the description of the API.
type openapi struct {
	Paths      map[string]map[string]apiOperation
	Components struct{ Schemas map[string]*apiSchema }
}

type apiOperation struct {
	OperationID string
	Parameters  []struct {
		Name, In string
		Required bool
		Schema   *apiSchema
	}
	RequestBody struct{ Content map[string]apiContent }
	Responses   map[string]struct{ Content map[string]apiContent }
}

type apiContent struct{ Schema *apiSchema }

type apiSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Format     string
	Enum       []any
	Examples   []any
	Minimum    *float64
	Required   []string
	Properties map[string]*apiSchema
	Items      *apiSchema
}

func (s *server) openapi(t *testing.T) (doc openapi) {
	t.Helper()
	resp, err := http.Get(s.url("/openapi.json"))
	status, _, body := s.read(resp, err)
	var raw struct {
		Paths      map[string]map[string]json.RawMessage
		Components json.RawMessage
	}
	if err := json.Unmarshal(body, &raw); err != nil || status != http.StatusOK {
		t.Fatalf("status %d: %v", status, err)
	}
	if err := json.Unmarshal(raw.Components, &doc.Components); err != nil {
		t.Fatal(err)
	}
	doc.Paths = map[string]map[string]apiOperation{}
	for path, methods := range raw.Paths {
		doc.Paths[path] = map[string]apiOperation{}
		for method, text := range methods {
			var op apiOperation
			if json.Unmarshal(text, &op) == nil {
				doc.Paths[path][method] = op
			}
		}
	}
	return doc
}

// timeQueries are queries in which one of the parameters that are texts, or all that are
// required, have a value.
func (op apiOperation) timeQueries(value string) (all []string) {
	required := url.Values{}
	for _, p := range op.Parameters {
		if p.In == "query" && p.Required {
			required.Set(p.Name, value)
		}
	}
	for _, p := range op.Parameters {
		if p.In != "query" || p.Schema == nil || p.Schema.Type != "string" || len(p.Schema.Enum) > 0 {
			continue
		}
		query := url.Values{p.Name: {value}}
		for name := range required {
			if name != p.Name {
				query.Set(name, map[bool]string{true: "2026-01-01T00:00:00Z", false: "2026-01-02T00:00:00Z"}[name == "from"])
			}
		}
		all = append(all, query.Encode())
	}
	if len(required) > 0 {
		all = append(all, required.Encode())
	}
	return all
}

func (op apiOperation) body() *apiSchema { return op.RequestBody.Content["application/json"].Schema }

func (d openapi) resolve(s *apiSchema) *apiSchema {
	if s != nil && s.Ref != "" {
		return d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

// timesIn lists the paths of the times that a document may hold.
func (d openapi) timesIn(s *apiSchema, at []string) (all [][]string) {
	s = d.resolve(s)
	if s == nil || len(at) > 8 {
		return nil
	}
	if s.Format == "date-time" {
		return [][]string{at}
	}
	for name, p := range s.Properties {
		all = append(all, d.timesIn(p, append(slices.Clone(at), name))...)
	}
	return append(all, d.timesIn(s.Items, at)...)
}

// sample is a document with what is required, and with a time at a path.
func (d openapi) sample(s *apiSchema, at []string, value string) any {
	s = d.resolve(s)
	switch {
	case s == nil:
		return nil
	case s.Format == "date-time" && at != nil && len(at) == 0:
		return value
	case s.Properties != nil:
		out := map[string]any{}
		for name, p := range s.Properties {
			switch {
			case len(at) > 0 && name == at[0]:
				out[name] = d.sample(p, at[1:], value)
			case slices.Contains(s.Required, name):
				out[name] = d.sample(p, nil, value)
			}
		}
		return out
	case s.Items != nil:
		return []any{d.sample(s.Items, at, value)}
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Minimum != nil:
		return *s.Minimum
	case s.Type == "integer" || s.Type == "number":
		return 1
	case s.Type == "boolean":
		return false
	case s.Type == "string":
		return "x"
	}
	return nil
}
