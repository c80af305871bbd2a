package httpapi

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// installProblems makes huma build problems of our form. It has only this
// package-wide hook for it, so it is set once, before the first API is made.
var installProblems = sync.OnceFunc(func() {
	huma.NewError = func(status int, detail string, errs ...error) huma.StatusError {
		return humaProblem(status, detail, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, detail string, errs ...error) huma.StatusError {
		if ctx != nil {
			nameNearest(ctx.Operation(), errs)
		}
		return humaProblem(status, detail, errs)
	}
})

// humaProblem states as 400 what huma calls 422: the specification answers
// every broken rule with 400.
func humaProblem(status int, detail string, errs []error) *Problem {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	p := NewProblem(status, detail)
	if status >= http.StatusInternalServerError && len(errs) > 0 {
		p = Internal(errors.Join(errs...))
		p.Status, p.Title = status, http.StatusText(status)
		return p
	}
	for _, err := range errs {
		if err != nil {
			p.add(fieldError(err))
		}
	}
	if slices.ContainsFunc(errs, unreadable) { // what its fields break is not known
		p.Errors = slices.DeleteFunc(p.Errors, func(e FieldError) bool {
			return e.Code != "invalid" && e.Code != "parameter_unknown"
		})
	}
	return p
}

// unreadable tells whether an error is that a body could not be read at all.
func unreadable(err error) bool {
	detail, ok := err.(*huma.ErrorDetail)
	return ok && detail.Location == "body" && !requiredProperty.MatchString(detail.Message)
}

// add adds an error unless there is one of the same field: what is found first is
// the cause of what else is.
func (p *Problem) add(e FieldError) {
	if e.Field == "" || !slices.ContainsFunc(p.Errors, func(has FieldError) bool { return has.Field == e.Field }) {
		p.Errors = append(p.Errors, e)
	}
}

func fieldError(err error) FieldError {
	var ours FieldError
	if errors.As(err, &ours) {
		return ours
	}
	var detail huma.ErrorDetailer
	if !errors.As(err, &detail) {
		return FieldError{Code: "invalid", Rule: err.Error()}
	}
	d := detail.ErrorDetail()
	if e, is := rangeField(d.Message); is {
		return e
	}
	e := FieldError{Field: fieldName(d.Location), Code: "invalid", Rule: d.Message}
	if m := requiredProperty.FindStringSubmatch(d.Message); m != nil {
		e.Field, e.Code, e.Rule = join(e.Field, m[1]), "missing", "is required"
	} else if strings.HasPrefix(d.Message, "required ") {
		e.Code, e.Rule = "missing", "is required"
	}
	return e
}

var requiredProperty = regexp.MustCompile(`^expected required property (\S+) to be present$`)

// fieldName drops the part of a request in which huma found the field: the
// names are unique among query, path and body.
func fieldName(location string) string {
	for _, part := range [...]string{"body", "query", "path", "header", "cookie"} {
		if location == part {
			return ""
		}
		if name, ok := strings.CutPrefix(location, part+"."); ok {
			return name
		}
	}
	return location
}

func join(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}
