package fold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// recovery is a session until it folds.
type recovery[B any] struct {
	cfg     Config
	keeper  *keeper
	sink    Sink[B]
	history history
	log     *slog.Logger

	machine *machine
	stored  Stored
	from    uint64 // everything up to here is durable
	to      uint64 // the end of the decided batch; from if there is none
	whole   uint64 // of a decided batch: the last message up to its end that the stream has
	last    uint64 // the last message up to the end of the fold that the stream has
	partial bool   // the view does not need all messages of the input
	refusal error  // why the state is Refused
	view    View[B]
}

// run acts until the session can fold, or must not.
func (r *recovery[B]) run(ctx context.Context) error {
	r.from, r.to = r.keeper.lease.Position()
	for {
		switch r.machine.state {
		case Folding, Completing:
			return nil
		case Refused:
			return r.refusal
		}
		event, err := r.act(ctx)
		if err != nil {
			return fmt.Errorf("fold, while %s: %w", r.machine.state, err)
		}
		if err := r.machine.step(event); err != nil {
			return err
		}
	}
}

// act does what the state asks for, and returns what came of it.
func (r *recovery[B]) act(ctx context.Context) (Event, error) {
	switch r.machine.state {
	case Asking:
		return r.ask(ctx)
	case Comparing:
		return r.compare(ctx)
	case Skipping:
		return r.skip(ctx)
	case Adopting:
		r.from, r.to = r.stored.Upto, r.stored.Upto
		return Moved, nil
	case Rewinding:
		return r.rewind(ctx)
	case Opening:
		return r.open(ctx)
	}
	return 0, errors.New("nothing is to be recovered")
}

func (r *recovery[B]) ask(ctx context.Context) (Event, error) {
	err := r.keeper.during(ctx, func(ctx context.Context) (err error) {
		r.stored, err = r.sink.Stored(ctx)
		return err
	})
	return Answered, err
}

// compare finds out whether the stream still has what is to be folded, and has
// not lost what is folded already.
func (r *recovery[B]) compare(ctx context.Context) (Event, error) {
	if r.cfg.Rewind {
		remade, err := r.history.remade(ctx, r.from)
		if err != nil {
			return 0, err
		}
		if remade {
			return Remade, nil
		}
	}
	state, short, err := r.history.reach(ctx, max(r.to, r.cfg.Upto, r.stored.Upto, r.stored.Local, r.stored.Seq))
	if err == nil && short == nil {
		short, err = r.contradiction(ctx, state.First)
	}
	if err != nil {
		return 0, err
	}
	switch r.refusal = short; {
	case short != nil && r.cfg.Rewind:
		return Remade, nil
	case short != nil:
		return Lost, nil
	}
	r.partial = state.Partial
	if r.to > r.from {
		if r.whole, err = r.history.input.Present(ctx, r.to); err != nil {
			return 0, err
		}
	}
	if r.cfg.Upto > 0 {
		if r.last, err = r.history.input.Present(ctx, r.cfg.Upto); err != nil {
			return 0, err
		}
	}
	switch {
	case r.to > r.from && r.whole <= r.from:
		r.log.Error("the stream has dropped messages before they were folded", "from", r.from, "to", r.to,
			"first", state.First)
		return Dropped, nil
	case r.stored.Upto > r.to:
		return Ahead, nil
	}
	return Agreed, nil
}

// contradiction tells whether the stream has lost what it had stored last. Then
// messages that are published next get sequences that stored effects carry, and
// would be taken for folded. The stream may have grown again since. A
// contradiction does not matter once the stream begins behind everything that
// the sink may have.
func (r *recovery[B]) contradiction(ctx context.Context, first uint64) (short, err error) {
	if first > max(r.stored.Upto, r.stored.Seq) {
		return nil, nil
	}
	if r.stored.Upto > r.to {
		// Unless another owner has decided since, and folded that.
		if err := r.keeper.sign(r.keeper.lease.Renew(ctx)); err != nil {
			return nil, err
		}
		return lost(r.history.input, r.stored.Upto,
			fmt.Errorf("the checkpoint knows of batches up to sequence %d only", r.to)), nil
	}
	if r.stored.Seq < max(first, 1) {
		return nil, nil
	}
	reason, err := r.history.other(ctx, r.stored.Known)
	if err != nil || reason == nil {
		return nil, err
	}
	return lost(r.history.input, max(r.stored.Upto, r.stored.Seq), reason), nil
}

// skip gives the decided batch up.
func (r *recovery[B]) skip(ctx context.Context) (Event, error) {
	if err := r.keeper.sign(r.keeper.lease.Done(ctx, r.to, 0)); err != nil {
		return 0, err
	}
	r.from = r.to
	return Moved, nil
}

// rewind goes back to the start of the stream.
func (r *recovery[B]) rewind(ctx context.Context) (Event, error) {
	r.log.Warn("the stream was made anew, reading it from its start", "stream", r.history.input.Name(), "position", r.from)
	r.from, r.to = 0, 0
	return Moved, r.keeper.sign(r.keeper.lease.Done(ctx, 0, 0))
}

// open brings the view to the position.
func (r *recovery[B]) open(ctx context.Context) (Event, error) {
	err := r.keeper.during(ctx, func(ctx context.Context) (err error) {
		r.view, err = r.sink.Open(ctx, r.from)
		return err
	})
	if r.to > r.from {
		return OpenedDecided, err
	}
	return OpenedFree, err
}

// lost is the error of a stream that lacks its end.
func lost(in Input, folded uint64, reason error) error {
	return &Stop{fmt.Errorf("the views are folded up to sequence %d of %s, and NATS has lost what it had stored "+
		"last, or its storage was replaced: %w; "+
		"restore it, or have the stream go on at %d (docs/recovery.md, When NATS has lost its end)", folded, in.Name(),
		reason, folded+1)}
}

// known is a message up to where the session begins, for the reader.
func (r *recovery[B]) known() Known {
	if r.stored.Seq > r.from {
		return Known{}
	}
	return r.stored.Known
}
