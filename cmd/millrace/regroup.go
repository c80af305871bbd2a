package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/slots"
)

type regroupCmd struct {
	Groups uint32 `help:"How many projectors may share the work from now on, 1 to 256." name:"slot-groups" required:""`
	NoWait bool   `help:"Return as soon as the change is requested. The projectors carry it out in any case."`

	NATS natsCommand `embed:"" group:"NATS"`
}

// Validate makes an impossible number bad usage.
func (c *regroupCmd) Validate() error {
	if _, err := slots.New(c.Groups); err != nil {
		return fmt.Errorf("--slot-groups: %w", err)
	}
	return nil
}

// Run asks for the change, and follows the projectors while they carry it out.
func (c *regroupCmd) Run(p *program) error {
	return c.NATS.checkpoints(p, "regroup", func(kv jetstream.KeyValue) error { return c.regroup(p, kv) })
}

func (c *regroupCmd) regroup(p *program, kv jetstream.KeyValue) error {
	underWay, err := assignment.Regroup(p.ctx, kv, c.Groups)
	if err != nil {
		return err
	}
	if !underWay {
		_, err = fmt.Fprintf(p.out, "slot groups: %d already\n", c.Groups)
		return err
	}
	if _, err := fmt.Fprintf(p.out, "slot groups: %d asked for; the projectors carry it out\n", c.Groups); err != nil ||
		c.NoWait {
		return err
	}
	after, err := c.follow(p, kv)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "slot groups: %d, behind sequence %d\n", c.Groups, after)
	return err
}

// follow waits until the groups have begun, and tells of the steps.
func (c *regroupCmd) follow(p *program, kv jetstream.KeyValue) (after uint64, err error) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	told := ""
	for {
		l, step, err := c.look(p.ctx, kv)
		switch {
		case errors.Is(err, assignment.ErrUnknownLayout):
			return 0, err
		case err != nil:
			step = "NATS does not answer, asking again"
		case step == "" || l.Next > 0 && l.Next != c.Groups: // the next change begins when one is complete
			return c.begin(l), nil
		}
		if step != told {
			told = step
			p.log.Info(step)
		}
		select {
		case <-tick.C:
		case <-p.ctx.Done():
			return 0, fmt.Errorf("%w: the projectors carry it out all the same", p.ctx.Err())
		}
	}
}

// begin is where the newest epoch with that number of groups does.
func (c *regroupCmd) begin(l slots.Layout) (after uint64) {
	for _, e := range l.Epochs {
		if e.Groups == c.Groups {
			after = e.After
		}
	}
	return after
}

// look tells what is still to be done, "" when it is nothing.
func (c *regroupCmd) look(ctx context.Context, kv jetstream.KeyValue) (l slots.Layout, step string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if l, err = assignment.ReadLayout(ctx, kv); err != nil {
		return l, "", err
	}
	if l.Next > 0 {
		return l, "waiting for the projectors to close the present groups", nil
	}
	left, err := assignment.Left(ctx, kv, l)
	if err != nil {
		return l, "", err
	}
	current := l.Current()
	if len(left) > 0 {
		return l, fmt.Sprintf("waiting for %d of the groups before to fold up to sequence %d", len(left),
			current[0].After), nil
	}
	at, err := assignment.Checkpoints(ctx, kv, current)
	if err == nil && len(at) < len(current) {
		step = fmt.Sprintf("waiting for a projector to take %d of the groups", len(current)-len(at))
	}
	return l, step, err
}
