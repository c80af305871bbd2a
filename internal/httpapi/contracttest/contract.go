// Package contracttest compares answers with the API's description. It is for tests.
package contracttest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// base is where the operations of the API are whose paths have no servers of their own.
const base = "/api/v1"

// location names the description among the resources of the schemas.
const location = "https://localhost/openapi.json"

// Contract is a description of an API. It is safe for concurrent use.
type Contract struct {
	paths []path

	mu       sync.Mutex // schemas are compiled when they are first needed
	compiler *jsonschema.Compiler
}

type path struct {
	template string
	matches  *regexp.Regexp
	methods  map[string]operation
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct {
			Schema any `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

// New reads a description, as /openapi.json gives it.
func New(description []byte) (*Contract, error) {
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(description, &document); err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	c := &Contract{compiler: jsonschema.NewCompiler()}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(description))
	if err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := c.compiler.AddResource(location, whole); err != nil {
		return nil, fmt.Errorf("read the schemas of the description: %w", err)
	}
	for template, item := range document.Paths {
		p := path{template: template, methods: map[string]operation{}}
		at := template
		if _, elsewhere := item["servers"]; !elsewhere {
			at = base + template
		}
		p.matches = regexp.MustCompile("^" + variable.ReplaceAllString(regexp.QuoteMeta(at), `[^/]+`) + "$")
		for method, text := range item {
			var op operation
			if json.Unmarshal(text, &op) == nil && op.Responses != nil {
				p.methods[strings.ToUpper(method)] = op
			}
		}
		c.paths = append(c.paths, p)
	}
	// A path without variables goes before one that matches it with some.
	slices.SortFunc(c.paths, func(a, b path) int {
		if n := strings.Count(a.template, "{") - strings.Count(b.template, "{"); n != 0 {
			return n
		}
		return strings.Compare(a.template, b.template)
	})
	return c, nil
}

// Of returns the contract of a server, as it describes itself.
func Of(t testing.TB, server http.Handler) *Contract {
	t.Helper()
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/openapi.json", nil))
	c, err := New(w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// variable is one of a path, as QuoteMeta leaves it.
var variable = regexp.MustCompile(`\\\{[^}]+\\\}`)

// Check returns how an answer differs from the description. Answers of what it does not
// describe pass: of other servers and of paths and methods that are not there.
func (c *Contract) Check(method string, asked *url.URL, resp *http.Response, body []byte) error {
	i := slices.IndexFunc(c.paths, func(p path) bool { return p.matches.MatchString(asked.EscapedPath()) })
	if i < 0 {
		return nil
	}
	op, known := c.paths[i].methods[method]
	if !known {
		return nil
	}
	differs := func(rule string, args ...any) error {
		return fmt.Errorf("%s %s answers %d: %s: %.300s",
			method, c.paths[i].template, resp.StatusCode, fmt.Sprintf(rule, args...), body)
	}
	status := strconv.Itoa(resp.StatusCode)
	response, known := op.Responses[status]
	if !known {
		return differs("the status is not described")
	}
	if len(response.Content) == 0 && len(body) == 0 {
		return nil
	}
	kind := typeOf(resp.Header.Get("Content-Type"))
	described := slices.Sorted(maps.Keys(response.Content))
	at := slices.IndexFunc(described, func(contentType string) bool { return typeOf(contentType) == kind })
	if at < 0 {
		return differs("the content type %q is not described", kind)
	}
	kind = described[at]
	content := response.Content[kind]
	if content.Schema == nil || !document(resp) {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return differs("the body is not JSON: %s", err)
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace
	schema, err := c.compile(fmt.Sprintf("%s#/paths/%s/%s/responses/%s/content/%s/schema",
		location, escape(c.paths[i].template), strings.ToLower(method), status, escape(kind)))
	if err != nil {
		return differs("the schema cannot be read: %s", err)
	}
	if err := schema.Validate(value); err != nil {
		return differs("%s", err)
	}
	return nil
}

func (c *Contract) compile(at string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.compiler.Compile(at)
}

// Transport passes requests on and reports answers that differ from the description. It
// looks at documents alone: answers that stream pass unread.
func (c *Contract) Transport(to http.RoundTripper, report func(error)) http.RoundTripper {
	return transport{c, to, report}
}

type transport struct {
	contract *Contract
	to       http.RoundTripper
	report   func(error)
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.to.RoundTrip(req)
	if err != nil || !document(resp) || req.Method == http.MethodHead {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil { // its reader is to meet it, too
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
		return resp, nil
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	plain, err := decode(resp.Header.Get("Content-Encoding"), body)
	if err == nil {
		err = t.contract.Check(req.Method, req.URL, resp, plain)
	}
	if err != nil {
		t.report(err)
	}
	return resp, nil
}

// decode returns a body as it was before it was encoded: a proxy passes it on as it is.
func decode(encoding string, body []byte) ([]byte, error) {
	switch encoding {
	case "", "identity":
		return body, nil
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("decode the body: %w", err)
		}
		return io.ReadAll(r)
	}
	return nil, fmt.Errorf("the body is encoded by %s, which the test cannot read", encoding)
}

// typeOf is a content type without its parameters.
func typeOf(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return kind
}

func document(resp *http.Response) bool {
	kind := typeOf(resp.Header.Get("Content-Type"))
	return kind == "application/json" || kind == "application/problem+json"
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
