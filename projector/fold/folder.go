package fold

import (
	"context"
	"time"
)

// folder cuts messages into batches. Its goroutine alone uses it.
type folder[B any] struct {
	view     View[B]
	from     uint64 // the open batch begins behind this sequence
	position uint64 // the last message folded
	messages int    // of the open batch
	pending  uint64 // messages of the stream behind the last one folded
	until    uint64 // while Completing: the decided end
	whole    uint64 // while Completing: the message that makes the batch whole
	last     uint64 // the last message of a fold that ends
	traces   traces // of the open batch
}

// sealed is a batch that is handed to the flusher.
type sealed[B any] struct {
	cut    Cut
	batch  B
	digest string
	traces traces
}

// fold turns chunks of messages into batches until there are no more, or the
// fold has reached its end.
func (f *Fold[B]) fold(ctx context.Context, chunks <-chan []Message) error {
	var started time.Time // when the last batch was handed over
	idle := false
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		if f.reachedEnd() {
			return f.end(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case ms, ok := <-chunks:
			if !ok {
				return f.finish(ctx)
			}
			if done, err := f.takeAll(ctx, ms); done || err != nil {
				return err
			}
		case <-f.idle:
			idle = true
		case <-pause.C:
		}
		if !idle || f.folder.messages == 0 || f.machine.state == Completing || f.folder.inside() {
			continue
		}
		if wait := f.interval() - time.Since(started); wait > 0 {
			pause.Reset(wait)
			continue
		}
		started, idle = time.Now(), false
		if err := f.hand(ctx); err != nil {
			return err
		}
	}
}

// fillLimit is how long a batch waits at most for the messages of a backlog that
// fill it: far longer than reading them takes, unless the source is silent.
const fillLimit = 5 * time.Second

// interval is the least time between the starts of two batches that are not
// full. A sink that is slow gets fewer and larger ones, so that it is at work on
// them for half of the time at most. A backlog that fills the batch is
// waited for: what a batch costs beside its messages is shared by more of them.
func (f *Fold[B]) interval() time.Duration {
	if missing := f.cfg.BatchMessages - f.folder.messages; missing > 0 && f.folder.pending >= uint64(missing) {
		return max(f.cfg.MinInterval, fillLimit)
	}
	return max(f.cfg.MinInterval, min(2*time.Duration(f.took.Load()), f.cfg.MaxInterval))
}

// takeAll folds a chunk. It returns true when the fold has reached its end.
func (f *Fold[B]) takeAll(ctx context.Context, ms []Message) (done bool, err error) {
	for i := range ms {
		if f.cfg.Upto > 0 && ms[i].Seq > f.cfg.Upto {
			return true, f.end(ctx)
		}
		if err := f.take(ctx, ms[i]); err != nil {
			return false, err
		}
	}
	return false, nil
}

// take folds a message, and hands the batch over when it is complete.
func (f *Fold[B]) take(ctx context.Context, m Message) error {
	o := &f.folder
	if f.machine.state == Completing && m.Seq > o.until { // the stream has lost the batch's last message
		if err := f.hand(ctx); err != nil {
			return err
		}
	}
	full := o.view.Take(m)
	f.trace(m)
	o.position, o.pending = m.Seq, m.Pending
	o.messages++
	if f.machine.state == Completing {
		if m.Seq < o.whole {
			return nil
		}
		return f.hand(ctx)
	}
	if (full || o.messages >= f.cfg.BatchMessages) && !o.inside() {
		return f.hand(ctx)
	}
	return nil
}

// hand seals the open batch and gives it to the flusher.
func (f *Fold[B]) hand(ctx context.Context) error {
	o := &f.folder
	cut := Cut{From: o.from, To: o.position}
	if f.machine.state == Completing {
		cut.To, cut.Recovered = o.until, true
		if err := f.machine.step(Completed); err != nil {
			return err
		}
	}
	batch, digest, err := o.view.Seal(ctx, cut)
	if err != nil {
		return err
	}
	s := sealed[B]{cut, batch, digest, o.traces}
	o.from, o.position, o.messages, o.traces = cut.To, cut.To, 0, nil
	select {
	case f.sealed <- s:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reachedEnd tells whether the stream has nothing more before the end.
func (f *Fold[B]) reachedEnd() bool {
	return f.cfg.Upto > 0 && f.machine.state == Folding && f.folder.position >= f.folder.last
}

// end hands over what is left before the end of the fold.
func (f *Fold[B]) end(ctx context.Context) error {
	o := &f.folder
	if f.machine.state == Completing { // the stream has lost the batch's last message
		if err := f.hand(ctx); err != nil {
			return err
		}
	}
	if err := f.machine.step(Reached); err != nil {
		return err
	}
	f.log.Info("the fold ends", "upto", f.cfg.Upto)
	if o.position = f.cfg.Upto; o.from < f.cfg.Upto {
		if err := f.hand(ctx); err != nil {
			return err
		}
	}
	return f.machine.step(Sealed)
}

// finish hands over what has been folded when reading has ended. A batch that is
// not completed stays decided, for the next session.
func (f *Fold[B]) finish(ctx context.Context) error {
	if f.folder.messages == 0 || f.machine.state == Completing || f.folder.inside() {
		return nil
	}
	return f.hand(ctx)
}

// inside tells whether a cut here would be between the messages of one thing.
func (o *folder[B]) inside() bool {
	parted, is := o.view.(Parted)
	return is && parted.Inside()
}
