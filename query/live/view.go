package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// View is what can be subscribed to.
type View struct {
	Name    string     // also of the member of a message that has its state
	Summary string     // of the API's description
	Scope   auth.Scope // that a reader needs; default auth.Read
	Params  []Param    // of a subscription, besides those that all views have
	// State is the type of its state, for the API's description.
	State reflect.Type
	// Every is how often the view is computed whose source does not say when it
	// changes; default Config.Refresh.
	Every time.Duration
	// Open checks what a caller asks for. Questions that always have the same
	// answer have the same key: where callers see different things, the key says
	// who may see this.
	Open func(auth.Caller, Values) (key string, s Source, p *httpapi.Problem)
}

// Param is a parameter of a view's subscriptions: a member of the message that
// subscribes, and a parameter of an event stream's address.
type Param struct {
	Name, Doc, Example string
	Flag               bool     // true or false; else it is a text
	Enum               []string // of texts, for the API's description
}

// Values are the parameters of a subscription. Absent ones are empty.
type Values map[string]string

// Flag tells whether a parameter is true.
func (v Values) Flag(name string) bool { return v[name] == "true" }

// Source computes the states of a view for one key.
type Source interface {
	// Snapshot computes the present state. An error that is an httpapi.Problem
	// is what readers are told.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Changed returns a channel that is closed at the next change; nil where
	// that is not known.
	Changed() <-chan struct{}
}

// Snapshot is the state of a view.
type Snapshot struct {
	Body json.RawMessage
	// Numbers are equal for snapshots that show the same: those that differ
	// only in when they were taken are not worth sending.
	Numbers string
	// Slow says that memory does not hold what was counted.
	Slow bool
	// Again is when to compute another although nothing changes, where that is
	// before the view's own interval has passed; 0: it is not.
	Again time.Duration
}

// defaultView is that of a subscription that names none.
const defaultView = "funnel"

// viewName is what may stand in a message unquoted, and in an address.
var viewName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// reserved are the members of messages and the parameters of addresses that do
// not belong to a view.
var reserved = []string{"op", "id", "view", "epoch", "seq", "unchanged", "error", "last_event_id", "access_token"}

// registry has the views by their names.
type registry map[string]View

func newRegistry(views []View) (registry, error) {
	r := registry{}
	for _, v := range views {
		_, twice := r[v.Name]
		switch {
		case v.Open == nil || v.State == nil:
			return nil, fmt.Errorf("live view %q: Open and State are needed", v.Name)
		case twice || !viewName.MatchString(v.Name) || slices.Contains(reserved, v.Name):
			return nil, fmt.Errorf("live view %q: the name is taken or unfit", v.Name)
		}
		for _, p := range v.Params {
			if slices.Contains(reserved, p.Name) {
				return nil, fmt.Errorf("live view %q: the name of parameter %s is taken", v.Name, p.Name)
			}
		}
		if v.Scope == "" {
			v.Scope = auth.Read
		}
		r[v.Name] = v
	}
	return r, nil
}

func (r registry) names() []string { return slices.Sorted(maps.Keys(r)) }

// scopes are those of the views: whoever has none of them can watch nothing.
func (r registry) scopes() []auth.Scope {
	all := map[auth.Scope]bool{}
	for _, v := range r {
		all[v.Scope] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// find returns a view, or why a caller may not subscribe to it.
func (r registry) find(name string, caller auth.Caller) (View, *httpapi.Problem) {
	if name == "" {
		name = defaultView
	}
	v, known := r[name]
	if !known {
		return v, problem("the view is unknown",
			httpapi.FieldError{Field: "view", Code: "view_unknown", Rule: among(name, r.names())})
	}
	if !caller.Has(v.Scope) {
		return v, httpapi.NewProblem(http.StatusForbidden, "the token lacks the scope "+string(v.Scope),
			httpapi.FieldError{Field: "view", Code: "scope", Rule: "needs the scope " + string(v.Scope)})
	}
	return v, nil
}

// problemOf is what readers are told when a snapshot cannot be computed.
func problemOf(err error) *httpapi.Problem {
	var p *httpapi.Problem
	if errors.As(err, &p) {
		return p
	}
	return httpapi.NewProblem(http.StatusServiceUnavailable, "the view cannot be computed at present")
}

func problem(detail string, errs ...httpapi.FieldError) *httpapi.Problem {
	return httpapi.NewProblem(http.StatusBadRequest, detail, errs...)
}
