package pipeline

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/window"
)

// faults collects what is wrong with a request, so that its caller is told all
// of it at once.
type faults []httpapi.FieldError

func (f *faults) add(p *httpapi.Problem) {
	if p != nil {
		*f = append(*f, p.Errors...)
	}
}

// window parses the window that a request asks for.
func (f *faults) window(r window.Request) window.Spec {
	spec, err := window.Parse(r)
	var broken window.Faults
	if errors.As(err, &broken) {
		for _, e := range broken {
			*f = append(*f, httpapi.FieldError(*e))
		}
	}
	return spec
}

// err is the problem of a request with faults, nil without.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f.problem()
}

func (f faults) problem() *httpapi.Problem {
	return httpapi.NewProblem(http.StatusBadRequest, "the request breaks a rule", f...)
}

// serviceKey is under which a request's context has the service.
type serviceKey struct{}

// checked is the middleware that lets requests check themselves against what
// the service knows.
func (s *Service) checked(ctx huma.Context, next func(huma.Context)) {
	next(huma.WithValue(ctx, serviceKey{}, s))
}

// resolve returns what is wrong with a request beyond what huma finds. It is what
// requests implement huma.Resolver with.
func resolve(ctx huma.Context, p httpapi.Params, check func(*Service) faults) []error {
	errs := p.Resolve(ctx)
	if s := serviceOf(ctx.Context()); s != nil {
		for _, e := range check(s) {
			errs = append(errs, e)
		}
	}
	return errs
}

func serviceOf(ctx context.Context) *Service {
	s, _ := ctx.Value(serviceKey{}).(*Service)
	return s
}
