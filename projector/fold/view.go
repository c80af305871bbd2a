package fold

import (
	"context"
	"time"
)

// Cut is the bounds of a batch: the messages of the sequences (From, To].
type Cut struct {
	From, To uint64
	// Recovered says that the cut was decided before this session, so that some
	// effects of the batch may be stored already.
	Recovered bool
}

// Input is what is folded: a stream (input.Stream), or what reads ahead of one. Its
// messages have sequences, which grow, and every session reads the same messages by
// the same sequences.
type Input interface {
	// Name is what errors and logs call the input.
	Name() string
	// State returns what the input has at present.
	State(ctx context.Context) (StreamState, error)
	// Present returns the last sequence up to seq that the input has a message of, 0
	// if it has none.
	Present(ctx context.Context, seq uint64) (uint64, error)
	// Received returns when the input received the message at a sequence, the zero
	// time if the message is gone.
	Received(ctx context.Context, seq uint64) (time.Time, error)
	// Open returns what reads the messages behind a position. Where the input is
	// partial, whole asks for all of its messages; the view passes over what it does
	// not need. known is a message that was folded, by which the reader knows that the
	// input was made anew; its Seq is 0 if none is known.
	Open(position uint64, whole bool, known Known) Reader
}

// Known is a message that was folded.
type Known struct {
	Seq      uint64
	Received time.Time // when the input received it, to the microsecond at least
}

// View is what messages are folded into, batch by batch. Take and Seal are
// called by one goroutine, Write and Announce by another one beside it.
//
// Three things make a view exact. What Seal returns depends on nothing but the
// messages up to the cut. Write changes nothing when its batch, or a part of it,
// is stored already. And a view that was opened takes messages behind the
// position again which the session before has stored, and does not count them
// twice: it knows them by their sequence.
type View[B any] interface {
	// Take adds a message to the open batch. It returns true when the view wants
	// the batch to be sealed. The message's memory is the input's: see
	// input.Message.
	Take(m Message) (full bool)
	// Seal closes the open batch at a cut, returns it, and begins the next one.
	// The lease keeps the digest beside the cut; it may be empty.
	Seal(ctx context.Context, cut Cut) (batch B, digest string, err error)
	// Write stores every effect of a batch, and returns when they are durable.
	Write(ctx context.Context, batch B) error
	// Announce tells readers of a batch that is durable. took is the time from
	// deciding its cut. The fold keeps nothing of the batch after that. ctx has the
	// batch's span, if it is traced.
	Announce(ctx context.Context, batch B, took time.Duration)
}

// Parted is a view of things that have several messages each. No cut is between the
// messages of one thing.
type Parted interface {
	// Inside tells whether messages of the last thing are still to come. It is called
	// beside Take, by the same goroutine.
	Inside() bool
}

// Sink is where a view is stored.
type Sink[B any] interface {
	// Stored says what the sink has of the view. A sink that can't tell returns
	// the zero value.
	Stored(ctx context.Context) (Stored, error)
	// Open returns the view with everything up to position folded.
	Open(ctx context.Context, position uint64) (View[B], error)
	// Failing tells whether the sink can't be written to at present. The owner
	// keeps silent meanwhile, so that another one may take over. It is called from
	// several goroutines.
	Failing() bool
}

// Stored is how far the effects in a sink reach. Positions in the stream are
// compared with it.
type Stored struct {
	// Upto is the end of the last batch that has an effect in the sink.
	Upto uint64
	// Local is the end of the last batch that the view has in a store of its own
	// beside the sink.
	Local uint64
	// Known is one of the last messages that were folded; its Seq is 0 if none is known.
	Known
}

// Lease is the right to fold, with the position. One goroutine at a time uses
// it. Each call that writes fails with an error of the lease once somebody else
// has it; then the session ends.
type Lease interface {
	// Position returns up to where everything is durable, and the end of the
	// batch that is decided behind it, the same if none is.
	Position() (from, to uint64)
	// Decide fixes the bounds of the next batch, and says that everything up to
	// from is durable.
	Decide(ctx context.Context, from, to uint64, digest string) error
	// Done says that everything up to the position is durable, that no batch is
	// decided, and up to where the stream has nothing else for this fold, 0 if that
	// is not known. An idle owner calls it again and again. The position goes back
	// for Config.Rewind alone.
	Done(ctx context.Context, position, caughtUp uint64) error
	// Renew says that the owner is alive, and nothing else.
	Renew(ctx context.Context) error
	// Release gives the lease up.
	Release(ctx context.Context) error
}
