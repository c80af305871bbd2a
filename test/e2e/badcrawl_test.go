package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// described is the part of the description of the API that tells what requests have.
type described struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas map[string]*describedSchema
	}
}

// describedSchema is a schema.
type describedSchema struct {
	Ref              string `json:"$ref"`
	Type             any
	Format           string
	Enum             []any
	Minimum, Maximum *float64
	MaxLength        *int
	Properties       map[string]*describedSchema
	Required         []string
	Items            *describedSchema
}

// describedOperation is an operation.
type describedOperation struct {
	OperationID string
	Tags        []string
	Parameters  []struct {
		Name, In string
		Schema   *describedSchema
	}
	RequestBody *struct {
		Content map[string]struct{ Schema *describedSchema }
	}
}

// goodBodies are documents that the operations take which need one.
var goodBodies = map[string]string{
	"create-source":  `{"name":"a","url":"https://example.com"}`,
	"update-source":  `{}`,
	"enable-source":  `{}`,
	"disable-source": `{}`,
	"change-sources": `{"operation":"disable","ids":["SOURCE"]}`,
	"make-job":       `{"source_id":"SOURCE","interval_minutes":5}`,
	"override-job":   `{}`,
	"change-jobs":    `{"operation":"pause","ids":["JOB"]}`,
	"reconcile-jobs": `{}`,

	"begin-sources-act": `{"move":"enable","filter":{"q":"no source has this name"}}`,
	"begin-jobs-act":    `{"move":"resume","filter":{"q":"no source has this name"}}`,
}

// badCrawls asks with requests that break one rule each.
type badCrawls struct {
	*server
	doc         described
	source, job string
	asked       int
}

// TestBadCrawlRequests: every parameter, and every field of every document, of the
// operations on sources and jobs is refused by its name when it breaks a rule, and
// nothing changes by that.
func TestBadCrawlRequests(t *testing.T) {
	t.Parallel()
	b := &badCrawls{server: up(t)}
	b.source = b.createSource(t, "a").ID
	poll(t, waitLimit, "the job of a source", func() bool {
		all := pages[crawlJob](b.server, "/jobs?limit=10")
		if len(all) > 0 {
			b.job = all[0].ID
		}
		return b.job != ""
	})
	b.jobCommand(t, http.MethodPost, b.job+"/pause", "") // so that it stays as it is
	resp, err := http.Get(b.url("/openapi.json"))
	if _, _, text := b.read(resp, err); json.Unmarshal(text, &b.doc) != nil {
		t.Fatal("the description of the API cannot be read")
	}
	state := func() string {
		_, _, source := b.fetch("/sources")
		_, _, job := b.fetch("/jobs")
		return string(source) + string(job)
	}
	before, operations := state(), 0
	for _, path := range slices.Sorted(maps.Keys(b.doc.Paths)) {
		methods := b.doc.Paths[path]
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			text := methods[method]
			var op describedOperation
			if json.Unmarshal(text, &op) != nil || !slices.Contains([]string{"Sources", "Jobs"}, first(op.Tags)) {
				continue
			}
			operations++
			b.operation(t, strings.ToUpper(method), path, op)
		}
	}
	if after := state(); after != before {
		t.Errorf("bad requests have changed\n%s\nto\n%s", before, after)
	}
	t.Logf("%d bad requests to %d operations", b.asked, operations)
	if operations < 25 || b.asked < 500 {
		t.Errorf("%d operations and %d requests are too few", operations, b.asked)
	}
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// operation asks one operation with everything that is wrong for it.
func (b *badCrawls) operation(t *testing.T, method, path string, op describedOperation) {
	t.Helper()
	fill := strings.NewReplacer("/jobs/{id}", "/jobs/"+b.job, "/sources/{id}", "/sources/"+b.source,
		"{source_id}", b.source)
	good := strings.NewReplacer("SOURCE", b.source, "JOB", b.job).Replace(goodBodies[op.OperationID])
	filled := fill.Replace(path)
	b.refused(t, method, filled+"?no_such_parameter=1", good, "no_such_parameter")
	for _, p := range op.Parameters {
		if p.In == "path" {
			for _, bad := range []string{"1", strings.Repeat("0", 65), strings.ReplaceAll(b.source, "-", "")} {
				b.refused(t, method, strings.Replace(path, "{"+p.Name+"}", bad, 1), good, p.Name)
			}
		}
		for _, bad := range badParameters(p.Name, p.Schema) {
			if p.In == "query" {
				b.refused(t, method, filled+"?"+p.Name+"="+url.QueryEscape(bad), good, p.Name)
			}
		}
	}
	if op.RequestBody == nil {
		return
	}
	content, isJSON := op.RequestBody.Content["application/json"]
	if !isJSON { // lists have tests of their own
		return
	}
	fields := map[string]json.RawMessage{}
	if good == "" || json.Unmarshal([]byte(good), &fields) != nil {
		if len(b.schema(content.Schema).Properties) > 0 {
			t.Errorf("%s has no good body in this test", op.OperationID)
		}
		return
	}
	for _, bad := range []string{`[]`, `"a"`, `{"a"`, `nul`} {
		b.refused(t, method, filled, bad, "")
	}
	b.document(t, "", b.schema(content.Schema), fields, func(body string, field string) {
		b.refused(t, method, filled, body, field)
	})
}

// document puts everything that is wrong into a document, one thing at a time.
func (b *badCrawls) document(
	t *testing.T, prefix string, s *describedSchema, good map[string]json.RawMessage, ask func(body, field string),
) {
	t.Helper()
	with := func(name, value string) string {
		fields := maps.Clone(good)
		if fields[name] = json.RawMessage(value); value == "" {
			delete(fields, name)
		}
		if name == "cron" || name == "interval_minutes" { // these exclude each other
			delete(fields, map[string]string{"cron": "interval_minutes", "interval_minutes": "cron"}[name])
		}
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ask(with("no_such_field", "1"), prefix+"no_such_field")
	for _, name := range s.Required {
		ask(with(name, ""), prefix+name)
	}
	for name, of := range s.Properties {
		if name == "$schema" {
			continue
		}
		// may be null, which is as good as left out
		may := slices.Contains([]string{"dry_run", "reason", "source_ids", "override"}, name)
		of = b.schema(of)
		for _, bad := range badValues(name, of) {
			if bad != "null" || !may {
				ask(with(name, bad), prefix+name)
			}
		}
		if of.Properties != nil && name != "override" { // PUT /jobs/{id}/override takes the same settings
			inner := map[string]json.RawMessage{}
			if of.Properties["start_hour"] != nil {
				inner = map[string]json.RawMessage{"start_hour": json.RawMessage("1"), "end_hour": json.RawMessage("2")}
			}
			b.document(t, prefix+name+".", of, inner, func(body, field string) { ask(with(name, body), field) })
		}
	}
}

// schema follows references.
func (b *badCrawls) schema(s *describedSchema) *describedSchema {
	for s != nil && s.Ref != "" {
		s = b.doc.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	if s == nil {
		return &describedSchema{}
	}
	return s
}

// is tells whether a schema takes values of a kind.
func (s *describedSchema) is(kind string) bool {
	several, _ := s.Type.([]any)
	return s.Type == kind || slices.Contains(several, any(kind))
}

// badParameters are values that break the schema of a parameter, or the rule that goes
// with its name.
func badParameters(name string, s *describedSchema) (bad []string) {
	switch {
	case s.is("integer"):
		bad = []string{"x", "1.5", "99999999999999999999"}
		bad = append(bad, beyond(s)...)
	case s.is("boolean"):
		bad = []string{"perhaps", "2"}
	case len(s.Enum) > 0:
		bad = []string{"no_such_value", strings.Repeat("x", 5000), "\xff"}
	default: // texts, ids, times and cursors
		bad = []string{strings.Repeat("x", 5000), "\xff", "a\x00b"}
	}
	if slices.Contains([]string{"cursor", "source_id", "from", "to"}, name) {
		bad = append(bad, "no such", "1", "999999999999-01-01T00:00:00Z")
	}
	return bad
}

// beyond are the whole numbers beyond the bounds of a schema.
func beyond(s *describedSchema) (bad []string) {
	if s.Minimum != nil {
		bad = append(bad, fmt.Sprint(int(*s.Minimum)-1))
	}
	if s.Maximum != nil {
		bad = append(bad, fmt.Sprint(int(*s.Maximum)+1), fmt.Sprint(math.MaxInt64))
	}
	return bad
}

// badValues are JSON values that break the schema of a field, or the rule that goes
// with its name.
func badValues(name string, s *describedSchema) (bad []string) {
	kinds := map[string]string{
		"string": `"x"`, "integer": `7`, "boolean": `true`, "array": `[]`, "object": `{}`, "null": `null`,
	}
	for kind, value := range kinds {
		if s.Type != nil && !s.is(kind) {
			bad = append(bad, value)
		}
	}
	switch {
	case s.is("integer"):
		bad = append(append(bad, `1.5`, `1e3000`, `99999999999999999999`, `"1"`), beyond(s)...)
	case s.is("string"):
		bad = append(bad, `"`+strings.Repeat("x", 100_000)+`"`, `"a\u0000b"`)
		if name != "reason" { // which need not be said
			bad = append(bad, `""`)
		}
	case s.is("array") && name == "ids":
		bad = append(bad, `[]`, `[7]`, `[null]`, `["x"`+strings.Repeat(`,"x"`, 500)+`]`)
	case s.is("array"):
		bad = append(bad, `["x"]`, `[null]`, `[7]`, `[-1]`)
	case name == "selectors":
		bad = append(bad, `[]`, `"x"`, `7`, `null`, strings.Repeat(`{"a":`, 40)+`{}`+strings.Repeat(`}`, 40),
			`{"a":"`+strings.Repeat("x", 70_000)+`"}`)
	}
	return bad
}

// refused holds an answer to the promise: status 400, and the name of what is wrong.
func (b *badCrawls) refused(t *testing.T, method, path, body, field string) {
	t.Helper()
	b.asked++
	req, err := http.NewRequestWithContext(t.Context(), method, b.url(api+path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	status, _, text := b.read(http.DefaultClient.Do(req))
	var p problem
	_ = json.Unmarshal(text, &p) // what is no problem document names no field
	for _, e := range p.Errors {
		if status == http.StatusBadRequest && e.Rule != "" && (e.Field == field || strings.HasPrefix(e.Field, field+"[")) {
			return
		}
	}
	t.Errorf("%s %.300s with %.300s: %d %.300s, want 400 that names %q", method, path, body, status, text, field)
}
