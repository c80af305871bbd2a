package httpapi

import (
	"net/http"
	"reflect"
	"strconv"

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

// Problems describes the errors of a plain handler, by status, for its
// operation's Responses.
func (s *Server) Problems(responses map[string]*huma.Response, statuses ...int) map[string]*huma.Response {
	for _, status := range statuses {
		responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{problemType: {Schema: schemaOf(s.api.OpenAPI(), Problem{})}},
		}
	}
	return responses
}
