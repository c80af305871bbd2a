package query

import (
	"reflect"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// LiveSnapshot is a message to a WebSocket: the state of a subscription's
// view. Package live writes it; the type describes it.
type LiveSnapshot struct {
	ID     string `json:"id" doc:"Of the subscription" example:"a"`
	Seq    uint64 `json:"seq" doc:"Counts the snapshots of the subscription" example:"1"`
	Funnel Funnel `json:"funnel"`
}

// LiveError is a message to a WebSocket: why a request was not accepted, or
// why a view cannot be shown at present.
type LiveError struct {
	ID    string          `json:"id" doc:"As in the request" example:"a"`
	Error httpapi.Problem `json:"error"`
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
