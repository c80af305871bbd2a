package main

import (
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	projector "github.com/millrace-io/millrace/projector/pipeline"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/slots"
)

type acceptCmd struct {
	Group uint32      `help:"The slot group, as the projector's error names it." name:"slot-group" required:""`
	NATS  natsCommand `embed:"" group:"NATS"`
}

// Run has the group's checkpoint forget what was counted, so that the next
// projector to take it believes ClickHouse.
func (c *acceptCmd) Run(p *program) error {
	return c.NATS.checkpoints(p, "accept identities", func(kv jetstream.KeyValue) error { return c.find(p, kv) })
}

// find accepts for the group of the command.
func (c *acceptCmd) find(p *program, kv jetstream.KeyValue) error {
	l, err := assignment.ReadLayout(p.ctx, kv)
	if err != nil {
		return err
	}
	for _, g := range l.All() {
		if g.ID == c.Group {
			return c.accept(p, kv, g)
		}
	}
	return fmt.Errorf("accept identities: there is no slot group %d", c.Group)
}

func (c *acceptCmd) accept(p *program, kv jetstream.KeyValue, g slots.Group) error {
	log, err := assignment.OpenLease(p.ctx, kv, g, "")
	if err != nil {
		return err
	}
	known := log.Record().View.Known
	if known.At == 0 {
		_, err := fmt.Fprintf(p.out, "slot group %d: nothing to forget\n", g.ID)
		return err
	}
	if err := projector.Accept(p.ctx, log); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "slot group %d: takes what ClickHouse has for what was counted up to sequence %d, "+
		"which were %d identities\n",
		g.ID, known.At, known.Identities.Count)
	return err
}
