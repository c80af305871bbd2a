package live

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/nearest"
)

// wish is what a reader subscribes to.
type wish struct {
	caller auth.Caller
	view   View
	values Values
	after  *snapshotID // of the last snapshot that the reader has; nil: it names none
}

// command is a message of a client.
type command struct {
	op, id string
	wish
}

const maxID = 64

// commandMembers are those of every message. Those of its view come on top.
var commandMembers = []string{"op", "id", "view", "epoch", "seq"}

// parseCommand reads a message. The id is that of the message also where the
// message is wrong, as far as it can be read.
func (r registry) parseCommand(data []byte, caller auth.Caller) (c command, p *httpapi.Problem) {
	c.caller = caller
	var members map[string]json.RawMessage
	if !utf8.Valid(data) || json.Unmarshal(data, &members) != nil {
		return c, errNoJSON()
	}
	var broken faults
	broken.read(members, "id", &c.id, "must be a string")
	broken.read(members, "op", &c.op, "must be a string")
	switch {
	case len(broken) > 0:
		return c, broken.problem()
	case c.id == "" || len(c.id) > maxID:
		return c, problem("the request has no usable id",
			httpapi.FieldError{Field: "id", Code: "length", Rule: "must have 1 to 64 bytes"})
	case c.op != "subscribe" && c.op != "unsubscribe":
		return c, problem("the operation is unknown",
			httpapi.FieldError{Field: "op", Code: "op_unknown", Rule: "must be subscribe or unsubscribe"})
	}
	var name string
	if broken.read(members, "view", &name, "must be a string"); len(broken) > 0 {
		return c, broken.problem()
	}
	if c.view, p = r.find(name, caller); p != nil {
		return c, p
	}
	broken.refuseUnknown(c.view, slices.Collect(maps.Keys(members)), commandMembers)
	c.values = broken.values(c.view, members)
	c.after = broken.snapshotID(members)
	return c, broken.problem()
}

// parseAddress reads what the address of an event stream asks for.
func (r registry) parseAddress(query url.Values, lastEvent string, caller auth.Caller) (w wish, p *httpapi.Problem) {
	w.caller = caller
	if w.view, p = r.find(query.Get("view"), caller); p != nil {
		return w, p
	}
	var broken faults
	broken.refuseUnknown(w.view, slices.Collect(maps.Keys(query)), addressParams)
	w.values = Values{}
	for _, param := range w.view.Params {
		text := query.Get(param.Name)
		if param.Flag && text != "" {
			flag, err := strconv.ParseBool(text)
			if err != nil {
				broken.add(param.Name, "type", "must be true or false")
			}
			text = strconv.FormatBool(flag)
		}
		w.values[param.Name] = text
	}
	if lastEvent == "" {
		lastEvent = query.Get("last_event_id")
	}
	w.after = parseEventID(lastEvent)
	return w, broken.problem()
}

// addressParams are those of every event stream.
var addressParams = []string{"view", "last_event_id", "access_token"}

// faults are what is wrong with a request.
type faults []httpapi.FieldError

func (f *faults) add(field, code, rule string) {
	*f = append(*f, httpapi.FieldError{Field: field, Code: code, Rule: rule})
}

func (f faults) problem() *httpapi.Problem {
	if len(f) == 0 {
		return nil
	}
	return problem("the request breaks a rule", f...)
}

// read reads a member, if it is there.
func (f *faults) read(members map[string]json.RawMessage, name string, into any, rule string) {
	if text, present := members[name]; present && json.Unmarshal(text, into) != nil {
		f.add(name, "type", rule)
	}
}

// shownUnknown bounds how many unknown members an answer names.
const shownUnknown = 5

// refuseUnknown refuses names that are neither known to all nor to the view.
func (f *faults) refuseUnknown(v View, names, known []string) {
	known = slices.Clone(known)
	for _, p := range v.Params {
		known = append(known, p.Name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(known, name) && len(*f) < shownUnknown {
			f.add(name[:min(len(name), maxID)], "member_unknown", among(name, known)+", for the view "+v.Name)
		}
	}
}

// among says that a name is not one of the known ones, and which is the nearest.
func among(name string, known []string) string {
	near, _ := nearest.Name(name, known)
	return fmt.Sprintf("must be one of %s; the nearest is %s", strings.Join(known, ", "), near)
}

// values reads the view's parameters.
func (f *faults) values(v View, members map[string]json.RawMessage) Values {
	values := Values{}
	for _, p := range v.Params {
		if p.Flag {
			var flag bool
			f.read(members, p.Name, &flag, "must be a bool")
			values[p.Name] = strconv.FormatBool(flag)
			continue
		}
		var text string
		f.read(members, p.Name, &text, "must be a string")
		values[p.Name] = text
	}
	return values
}

// snapshotID reads the epoch and the sequence, nil without an epoch.
func (f *faults) snapshotID(members map[string]json.RawMessage) *snapshotID {
	var epoch *string
	var p snapshotID
	f.read(members, "epoch", &epoch, "must be a string")
	f.read(members, "seq", &p.seq, "must be a whole number, as in the last message")
	if epoch == nil {
		return nil
	}
	p.epoch = *epoch
	return &p
}

func errNoJSON() *httpapi.Problem {
	return problem("the message must be JSON text",
		httpapi.FieldError{Code: "json", Rule: "must be one JSON object, as text"})
}
