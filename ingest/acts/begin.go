package acts

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

// Asks is a document that asks for an act.
type Asks interface {
	// Check returns all rules that it breaks beyond its schema.
	Check() []item.Invalid
	Request() acts.Request
}

// BeginRequest is a request for an act.
type BeginRequest[B Asks] struct {
	httpapi.Params
	Key     string `header:"Idempotency-Key" maxLength:"255" doc:"The same request with the same key, by the same caller, answers 200 with the act that the first has begun"`
	RawBody []byte
	Body    B
}

// Resolve implements huma.Resolver.
func (r *BeginRequest[B]) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	if rule := userqueue.CheckText("Idempotency-Key", r.Key); rule != nil {
		errs = append(errs, httpapi.FieldError(*rule))
	}
	return append(errs, endpoint.Refused(append(r.Body.Check(), checkFilter(r.RawBody)...))...)
}

// OfFilter names the fields of rules that a filter breaks as members of the filter of a request.
func OfFilter(broken []item.Invalid) []item.Invalid {
	for i := range broken {
		broken[i].Field = "filter." + broken[i].Field
	}
	return broken
}

// checkFilter refuses parts of a filter that are null or empty: a caller who has lost a value would act on all.
func checkFilter(body []byte) (broken []item.Invalid) {
	var of struct{ Filter map[string]json.RawMessage }
	if json.Unmarshal(body, &of) != nil {
		return nil // which the schema tells
	}
	for _, name := range slices.Sorted(maps.Keys(of.Filter)) {
		if text := string(of.Filter[name]); text == "null" || text == `""` {
			broken = append(broken, item.Invalid{
				Field: "filter." + name, Code: "empty", Rule: "must not be null or empty: leave it out to match any",
			})
		}
	}
	return broken
}

// BegunAct is the answer.
type BegunAct struct {
	recrawl.Act
	made bool
}

// Made implements endpoint.Created.
func (a BegunAct) Made() bool { return a.made }

// Begin adds an operation that begins acts, for callers with the scope admin.
func Begin[B Asks](api endpoint.API, store *acts.Store, op endpoint.Operation) {
	op.Scope = auth.Admin
	endpoint.Post(api, op, func(ctx context.Context, in *BeginRequest[B]) (BegunAct, error) {
		r := in.Body.Request()
		r.By, r.Key = auth.CallerFrom(ctx).Subject, in.Key
		a, made, err := store.Begin(ctx, r)
		if errors.Is(err, acts.ErrKeyTaken) {
			return BegunAct{}, httpapi.NewProblem(http.StatusConflict, err.Error(), httpapi.FieldError{
				Field: "Idempotency-Key", Code: "taken", Rule: "must not be the key of a request for something else",
			})
		}
		return BegunAct{recrawl.ActOf(a), made}, err
	})
	recrawl.DescribeActs(api.Server.API().OpenAPI().Components.Schemas, store, recrawl.Act{}, BegunAct{})
}
