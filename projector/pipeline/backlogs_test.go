package pipeline

import (
	"slices"
	"testing"
)

// TestBacklogs: of backlogs of several slot groups the first and the end of the last
// are told.
func TestBacklogs(t *testing.T) {
	var told []bool
	b := backlogs{tell: func(backlog bool) { told = append(told, backlog) }, groups: map[uint32]struct{}{}}
	for _, s := range []struct {
		group uint32
		has   bool
		want  []bool // all that was told so far
	}{
		{1, false, nil},
		{1, true, []bool{true}},
		{1, true, []bool{true}},
		{2, true, []bool{true}},
		{1, false, []bool{true}},
		{2, false, []bool{true, false}},
		{2, false, []bool{true, false}},
		{2, true, []bool{true, false, true}},
	} {
		b.set(s.group, s.has)
		if !slices.Equal(told, s.want) {
			t.Fatalf("after group %d has a backlog: %t, told %v, want %v", s.group, s.has, told, s.want)
		}
	}
}
