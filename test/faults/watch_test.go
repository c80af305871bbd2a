package main

import (
	"errors"
	"testing"

	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
)

// groupsOf are slot groups by their owners.
func groupsOf(owners ...string) (seen []record) {
	for i, owner := range owners {
		seen = append(seen, record{slots.Group{ID: uint32(i)}, funnel.Checkpoint{Owner: owner}})
	}
	return seen
}

// TestShared: groups are shared by as many projectors as are asked for, no more
// and no fewer, and not while one has no owner.
func TestShared(t *testing.T) {
	for _, tc := range []struct {
		owners     []string
		projectors int
		want       bool
	}{
		{[]string{"a", "a", "a"}, 1, true},
		{[]string{"a", "b", "a"}, 1, false},
		{[]string{"a", "a", "a"}, 2, false},
		{[]string{"a", "b", "a"}, 2, true},
		{[]string{"a", "b", "c"}, 4, true},
		{[]string{"a", "b", "b"}, 4, false},
		{[]string{"a", "", "a"}, 1, false},
		{nil, 1, false},
	} {
		if got := sharedBy(tc.projectors, groupsOf(tc.owners...)); got != tc.want {
			t.Errorf("%q are shared by %d: %v", tc.owners, tc.projectors, got)
		}
	}
}

// TestRebalanceInVain: one group can't be shared, and no fault is claimed.
func TestRebalanceInVain(t *testing.T) {
	s := &saboteur{watch: &watch{seen: groupsOf("a")}}
	if _, err := s.rebalance(); !errors.Is(err, errOneGroup) {
		t.Error(err)
	}
}
