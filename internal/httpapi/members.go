package httpapi

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/millrace-io/millrace/internal/nearest"
)

// nameNearest replaces what huma says of members that a body must not have by errors that
// name the nearest that it may have.
func nameNearest(op *huma.Operation, errs []error) {
	for i, err := range errs {
		var d *huma.ErrorDetail
		if !errors.As(err, &d) || d.Message != validation.MsgUnexpectedProperty {
			continue
		}
		field := fieldName(d.Location)
		name := field[strings.LastIndexByte(field, '.')+1:]
		errs[i] = FieldError{Field: field, Code: "field_unknown", Rule: nearest.Unknown(name, membersOf(op, field))}
	}
}

// membersOf lists the members that the document may have in which a body has a field.
func membersOf(op *huma.Operation, field string) []string {
	if op == nil || op.RequestBody == nil {
		return nil
	}
	schemas, known := op.Metadata[schemasOf].(huma.Registry)
	content := op.RequestBody.Content["application/json"]
	if !known || content == nil {
		return nil
	}
	s := resolved(schemas, content.Schema)
	steps := strings.Split(field, ".")
	for _, step := range steps[:len(steps)-1] {
		name, index, _ := strings.Cut(step, "[")
		if name != "" && s != nil {
			s = resolved(schemas, s.Properties[name])
		}
		for range strings.Count(index, "]") {
			if s != nil {
				s = resolved(schemas, s.Items)
			}
		}
	}
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

// resolved follows the reference of a schema.
func resolved(schemas huma.Registry, s *huma.Schema) *huma.Schema {
	for s != nil && s.Ref != "" {
		s = schemas.SchemaFromRef(s.Ref)
	}
	return s
}
