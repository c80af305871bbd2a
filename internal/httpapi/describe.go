package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

func schemaOf(doc *huma.OpenAPI, v any) *huma.Schema {
	return doc.Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}

// Answer describes a JSON answer of a plain handler; body is a value of the
// type that it sends.
func (s *Server) Answer(description string, body any) *huma.Response {
	return &huma.Response{
		Description: description,
		Content:     map[string]*huma.MediaType{"application/json": {Schema: schemaOf(s.api.OpenAPI(), body)}},
	}
}

// complete adds to the description of an operation what the frame itself answers.
func complete(doc *huma.OpenAPI, op *huma.Operation) {
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	delete(op.Responses, strconv.Itoa(http.StatusUnprocessableEntity)) // answered as 400
	statuses := []int{http.StatusBadRequest, http.StatusForbidden, http.StatusInternalServerError}
	if strings.Contains(op.Path, "{") {
		statuses = append(statuses, http.StatusNotFound)
	}
	if op.RequestBody != nil {
		statuses = append(statuses,
			http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	for _, status := range statuses {
		if code := strconv.Itoa(status); op.Responses[code] == nil {
			op.Responses[code] = problemResponse(doc, status)
		}
	}
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[schemasOf] = doc.Components.Schemas
}

// schemasOf is under which an operation's metadata has the schemas that its body refers to.
const schemasOf = "schemas"

func problemResponse(doc *huma.OpenAPI, status int) *huma.Response {
	return &huma.Response{
		Description: http.StatusText(status),
		Content:     map[string]*huma.MediaType{problemType: {Schema: schemaOf(doc, Problem{})}},
	}
}

// describeNulls has a description say which members may be null. Huma says so of pointers
// to plain values, but not of those to documents, to ids and with an enum; and where its
// own schemas said so, it would not check what requests have there.
func describeNulls(description []byte, schemas huma.Registry) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(description, &doc); err != nil {
		return nil, err
	}
	components, _ := doc["components"].(map[string]any)
	all, _ := components["schemas"].(map[string]any)
	for name, schema := range all {
		of := schemas.TypeFromRef("#/components/schemas/" + name)
		for of != nil && of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		properties, _ := schema.(map[string]any)["properties"].(map[string]any)
		if of == nil || of.Kind() != reflect.Struct {
			continue
		}
		for _, field := range reflect.VisibleFields(of) {
			tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			member, known := properties[tag].(map[string]any)
			if known && field.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omit") {
				allowNull(member)
			}
		}
	}
	return json.Marshal(doc)
}

func allowNull(schema map[string]any) {
	if ref, is := schema["$ref"]; is {
		delete(schema, "$ref")
		schema["anyOf"] = []any{map[string]any{"$ref": ref}, map[string]any{"type": "null"}}
	}
	if kind, is := schema["type"].(string); is {
		schema["type"] = []any{kind, "null"}
	}
	if enum, is := schema["enum"].([]any); is && !slices.Contains(enum, nil) {
		schema["enum"] = append(enum, nil)
	}
}

// Problems describes the errors of a plain handler, by status, for its
// operation's Responses.
func (s *Server) Problems(responses map[string]*huma.Response, statuses ...int) map[string]*huma.Response {
	for _, status := range statuses {
		responses[strconv.Itoa(status)] = problemResponse(s.api.OpenAPI(), status)
	}
	return responses
}
