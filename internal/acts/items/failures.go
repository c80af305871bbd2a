package items

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
)

// Failures are items put together by the fingerprints of their errors.
type Failures struct {
	Groups []FailureGroup `json:"groups" nullable:"false" doc:"The 100 largest, the largest first"`
	Items  int            `json:"items" doc:"Items in all groups"`
	More   bool           `json:"more" doc:"There are more items than the 100,000 of a queue that are looked at, the oldest"`
}

// FailureGroup is a group of failures.
type FailureGroup struct {
	Fingerprint string    `json:"fingerprint" doc:"The error with what differs made alike; without an error: that"`
	Count       int       `json:"count"`
	Example     string    `json:"example" doc:"The error of one of them, as it was"`
	First       time.Time `json:"first" doc:"When the first of them failed"`
	Last        time.Time `json:"last"`
}

const (
	mostLooked = 100_000
	mostGroups = 100
)

// Failures puts failed items together by their errors. A state of live items in a
// user-defined queue is allowed as well: scheduled ones have failed before. Of private items
// it has those that are visible.
func (s *Subject) Failures(ctx context.Context, f ItemFilter, visible userqueue.Visible) (Failures, error) {
	move := Retry
	if slices.Contains(states[Cancel], f.State) {
		move = Cancel
	}
	sel, err := s.selection(ctx, move, f)
	if err != nil {
		return Failures{}, err
	}
	if sel.own != nil {
		sel.own.Visible = visible
	}
	out := Failures{Groups: []FailureGroup{}}
	groups := map[string]*FailureGroup{}
	looked := map[queue.ID]int{}
	err = s.each(ctx, sel, mostLooked+1, func(m queue.Member, print string) error {
		if looked[m.Queue]++; looked[m.Queue] > mostLooked {
			out.More = true
			return nil
		}
		if m.Error == "" && move == Cancel {
			return nil // it has not failed yet
		}
		out.Items++
		g := groups[print]
		if g == nil {
			g = &FailureGroup{print, 0, m.Error, m.At.UTC(), m.At.UTC()}
			groups[print] = g
		}
		g.Count++
		if m.At.Before(g.First) {
			g.First = m.At.UTC()
		}
		if m.At.After(g.Last) {
			g.Last = m.At.UTC()
		}
		return nil
	})
	if err != nil {
		return Failures{}, fmt.Errorf("group failures: %w", err)
	}
	for _, g := range groups {
		out.Groups = append(out.Groups, *g)
	}
	slices.SortFunc(out.Groups, func(a, b FailureGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	out.Groups = out.Groups[:min(len(out.Groups), mostGroups)]
	return out, nil
}
