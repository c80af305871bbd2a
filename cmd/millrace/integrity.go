package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/integrity"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

// firstLook bounds the look at the streams before anything is published to them.
const firstLook = 15 * time.Second

// runIntegrity notices what the streams have lost. The first look comes before
// anything of this process publishes, so that a stream that has lost its end does
// not grow beyond it unnoticed.
func (n *node) runIntegrity() (err error) {
	if err := makePrivate(n.projectorFolder()); err != nil {
		return err
	}
	n.integrity, err = integrity.New(
		integrity.Config{File: filepath.Join(n.projectorFolder(), "streams")}, n.nats, n.registry, n.log,
	)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstLook)
	defer cancel()
	if err := n.integrity.Look(ctx); err != nil {
		n.log.Warn("the streams are not compared with what is noted of them yet", "error", err)
	}
	n.stack.launch("integrity", n.supervisor.note("integrity", part{"streams", n.integrity.Run}).noting)
	return nil
}

// mendEvery is how often streams are looked for that somebody may have deleted.
const mendEvery = 5 * time.Second

// mendStreams makes streams anew that two looks in a row have missed, until ctx ends.
func (n *node) mendStreams(ctx context.Context) error {
	var before []string
	return retry.Every(ctx, mendEvery, func(ctx context.Context) error {
		missing, err := stream.Missing(ctx, n.js, false)
		if err == nil && len(missing) > 0 && slices.Equal(missing, before) {
			if missing, err = stream.Missing(ctx, n.js, true); err == nil {
				n.log.Warn("streams were deleted, and are made anew: what they had is gone", "streams", missing)
			}
		}
		before = missing
		return err
	}, retry.Warn(n.log, "streams are not looked for now"))
}

// acked returns what is told what a stream has acknowledged; nil: nobody is.
func (n *node) acked() func(stream string, seq uint64) {
	if n.integrity == nil {
		return nil
	}
	return n.integrity.Acked
}

type acceptLossCmd struct {
	Stream string      `help:"The stream, as /health names it." required:""`
	NATS   natsCommand `embed:"" group:"NATS"`
}

// Run accepts what a stream has lost.
func (c *acceptLossCmd) Run(p *program) error {
	return c.NATS.jetStream(p, "accept loss", func(js jetstream.JetStream) error { return c.accept(p, js) })
}

func (c *acceptLossCmd) accept(p *program, js jetstream.JetStream) error {
	lost, err := integrity.Accept(p.ctx, js, c.Stream)
	if err != nil {
		return err
	}
	if len(lost.Sequences) == 0 && len(lost.Remarks) == 0 {
		_, err = fmt.Fprintf(p.out, "stream %s: nothing to accept\n", c.Stream)
		return err
	}
	if len(lost.Sequences) > 0 {
		_, err = fmt.Fprintf(p.out, "stream %s: accepted the loss of %d messages: sequences %s\n", c.Stream,
			lost.Sequences.Count(), lost.Sequences)
	}
	for _, remark := range lost.Remarks {
		if err == nil {
			_, err = fmt.Fprintf(p.out, "stream %s: accepted: %s\n", c.Stream, remark)
		}
	}
	return err
}
