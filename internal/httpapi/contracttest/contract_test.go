package contracttest

import (
	"net/http"
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
