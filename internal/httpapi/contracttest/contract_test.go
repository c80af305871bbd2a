package contracttest

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

const description = `{
	"openapi": "3.1.0",
	"paths": {
		"/health": {"servers": [{"url": "."}], "get": {"responses": {"200": {"content": {"application/json": {}}}}}},
		"/things/{id}": {"get": {"responses": {
			"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}
		}}},
		"/things/all": {"get": {"responses": {
			"200": {"content": {"application/json": {"schema": {"type": "array"}}}}
		}}}
	},
	"components": {"schemas": {
		"Thing": {
			"type": "object", "additionalProperties": false, "required": ["id", "window"],
			"properties": {"id": {"type": "integer"}, "window": {"anyOf": [{"$ref": "#/components/schemas/Window"}, {"type": "null"}]}}
		},
		"Window": {"type": "object"}
	}}
}`

func TestContract(t *testing.T) {
	c, err := New([]byte(description))
	if err != nil {
		t.Fatal(err)
	}
	const document = "application/json"
	for _, v := range []struct {
		path, kind string
		status     int
		body, want string // a part of the error
	}{
		{"/health", document, 200, `{"status":"ok"}`, ""},
		{"/api/v1/things/7", document, 200, `{"id":7,"window":null}`, ""},
		{"/api/v1/things/all", document + "; charset=utf-8", 200, `[]`, ""},
		{"/api/v1/nothing", document, 418, `{}`, ""},
		{"/api/v1/things/7", document, 200, `{"id":"7","window":null}`, "got string, want integer"},
		{"/api/v1/things/7", document, 200, `{"id":7,"window":3}`, "got number"},
		{"/api/v1/things/7", document, 200, `{"id":7,"window":{},"more":1}`, "additional properties 'more' not allowed"},
		{"/api/v1/things/7", document, 200, `{"id":7`, "not JSON"},
		{"/api/v1/things/7", document, 404, `{}`, "status is not described"},
		{"/api/v1/things/7", "text/html", 200, ``, `"text/html" is not described`},
	} {
		resp := &http.Response{StatusCode: v.status, Header: http.Header{"Content-Type": {v.kind}}}
		err := c.Check(http.MethodGet, &url.URL{Path: v.path}, resp, []byte(v.body))
		if (v.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s %d %s: %v, want %q", v.path, v.status, v.body, err, v.want)
		}
	}
}

// TestEncoded: an answer that is passed on as a server encoded it is compared as well.
func TestEncoded(t *testing.T) {
	c, err := New([]byte(description))
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{`{"id":7,"window":null}`: "", `{"id":"7","window":null}`: "got string, want integer"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			to := gzip.NewWriter(w)
			_, err := io.WriteString(to, body)
			if err := errors.Join(err, to.Close()); err != nil {
				t.Error(err)
			}
		}))
		var told error
		client := http.Client{Transport: c.Transport(http.DefaultTransport, func(err error) { told = err })}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/things/7", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip") // so the client leaves the body as it is
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		server.Close()
		if (want == "") != (told == nil) || told != nil && !strings.Contains(told.Error(), want) {
			t.Errorf("%s: %v, want %q", body, told, want)
		}
	}
}
