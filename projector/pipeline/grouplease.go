package pipeline

import (
	"context"
	"sync/atomic"

	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// groupLease is the lease of a group, which says beside the position what the group has counted,
// and what that rests on. One goroutine at a time may use it; Know and Known may be
// called beside that.
type groupLease struct {
	*assignment.Lease
	known    atomic.Pointer[contract.Known]
	baseline contract.Baseline // of the records that are written next
}

func newGroupLease(lease *assignment.Lease) *groupLease {
	last := lease.Record().View
	c := &groupLease{Lease: lease, baseline: last.Baseline}
	c.Know(last.Known)
	lease.Keep(c.at)
	return c
}

// at returns what the record of a position says, behind one that says last.
func (c *groupLease) at(from uint64, last contract.Counts) contract.Counts {
	if known := c.Known(); known.At <= from {
		last.Known = known
	}
	last.Baseline = c.baseline
	return last
}

// Known returns what Know was last told, or what the lease said in the beginning.
func (c *groupLease) Known() contract.Known { return *c.known.Load() }

// Know sets what the group has counted. Records written from now on include it once their
// position has reached it.
func (c *groupLease) Know(k contract.Known) { c.known.Store(&k) }

// Rebase begins another baseline, in which ClickHouse lacks so many identities of what
// was counted.
func (c *groupLease) Rebase(ctx context.Context, missing uint64) error {
	c.baseline.Number++
	c.baseline.Missing = missing
	return c.Take(ctx)
}

// Accept has a group's record say nothing of what the group has counted, and gives the
// group up: whoever takes it believes what ClickHouse has, which is another baseline.
func Accept(ctx context.Context, lease *assignment.Lease) error {
	last := lease.Record().View.Baseline
	accepted := contract.Counts{Baseline: contract.Baseline{Number: last.Number + 1, Accepted: last.Accepted + 1}}
	lease.Keep(func(uint64, contract.Counts) contract.Counts { return accepted })
	return lease.Release(ctx)
}
