package live

import (
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/window"
)

const maxID = 64

// handle does what a message asks for, or says why not.
func (c *conn) handle(kind int, data []byte) (id string, p *httpapi.Problem) {
	var r Request
	if kind != websocket.TextMessage || !utf8.Valid(data) {
		return "", problem("the message must be JSON text", httpapi.FieldError{Code: "json", Rule: "must be one JSON object, as text"})
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r.ID, unreadable(err)
	}
	if r.ID == "" || len(r.ID) > maxID {
		return r.ID, problem("the request has no usable id", httpapi.FieldError{Field: "id", Code: "length", Rule: "must have 1 to 64 bytes"})
	}
	switch r.Op {
	case "subscribe":
		return r.ID, c.subscribe(r)
	case "unsubscribe":
		if !c.unsubscribe(r.ID) {
			return r.ID, problem("there is no such subscription", httpapi.FieldError{Field: "id", Code: "id_unknown", Rule: "must be that of a subscription"})
		}
		return r.ID, nil
	}
	return r.ID, problem("the operation is unknown", httpapi.FieldError{Field: "op", Code: "op_unknown", Rule: "must be subscribe or unsubscribe"})
}

func unreadable(err error) *httpapi.Problem {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return problem("a field has the wrong type", httpapi.FieldError{Field: wrong.Field, Code: "type", Rule: "must be a " + wrong.Type.String()})
	}
	return problem("the message must be JSON text", httpapi.FieldError{Code: "json", Rule: "must be one JSON object, as text"})
}

func (c *conn) subscribe(r Request) *httpapi.Problem {
	if r.View == "" {
		r.View = "funnel"
	}
	view, known := c.hub.views[r.View]
	if !known {
		return problem("the view is unknown", httpapi.FieldError{Field: "view", Code: "view_unknown", Rule: "must be funnel"})
	}
	spec, err := window.Parse(window.Request{Period: r.Period, TZ: r.TZ})
	var invalid *window.Invalid
	if errors.As(err, &invalid) {
		return problem("a field breaks a rule", httpapi.FieldError{Field: invalid.Field, Code: invalid.Code, Rule: invalid.Rule})
	}
	if p := view.Check(r.Source); p != nil {
		return p
	}
	return c.add(r, spec)
}

func (c *conn) add(r Request, spec window.Spec) *httpapi.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subs[r.ID] != nil {
		return problem("the id is in use", httpapi.FieldError{Field: "id", Code: "id_in_use", Rule: "must not be that of a subscription"})
	}
	if len(c.subs) >= c.hub.cfg.Subscriptions {
		return httpapi.NewProblem(http.StatusTooManyRequests, "there are too many subscriptions on this connection")
	}
	f := c.hub.join(c, feedKey{r.View, r.Source, spec.Key(), r.SkipReclassified}, Query{r.Source, spec, r.SkipReclassified})
	if f == nil {
		return httpapi.NewProblem(http.StatusServiceUnavailable, "too many different views are being watched")
	}
	c.subs[r.ID] = &subscription{id: r.ID, feed: f}
	c.notify() // the feed may have a frame already
	return nil
}

// unsubscribe tells whether there was such a subscription.
func (c *conn) unsubscribe(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subs[id]
	if s == nil {
		return false
	}
	delete(c.subs, id)
	c.hub.part(c, s.feed)
	return true
}
