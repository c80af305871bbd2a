package recrawl

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/acts"
)

// DescribeActs adds the moves and filters of all subjects to the description of records of acts, which have the members
// of Act, so that generated clients have types for them. It is the same in every role.
func DescribeActs(schemas huma.Registry, of *acts.Store, records ...any) {
	var moves []any
	var filters []*huma.Schema
	for _, asked := range of.Asked() {
		t := reflect.TypeOf(asked)
		move, _ := t.FieldByName("Move")
		filter, _ := t.FieldByName("Filter")
		for word := range strings.SplitSeq(move.Tag.Get("enum"), ",") {
			moves = append(moves, word)
		}
		filters = append(filters, &huma.Schema{Ref: schemas.Schema(filter.Type, true, "").Ref})
	}
	for _, record := range records {
		members := schemas.SchemaFromRef(schemas.Schema(reflect.TypeOf(record), true, "").Ref).Properties
		members["move"].Enum, members["filter"].AnyOf = moves, filters
	}
}
