package fold

import (
	"fmt"
	"log/slog"
)

// State is where a session is between taking the lease and giving it up.
type State uint8

const (
	// Asking asks the sink how far the view is.
	Asking State = iota
	// Comparing compares the stream with the lease and the sink.
	Comparing
	// Skipping gives a decided batch up, whose messages are gone.
	Skipping
	// Adopting takes the sink's position, which lies beyond the lease's, after an
	// operator has moved the stream on.
	Adopting
	// Rewinding begins at the start of a stream that was made anew.
	Rewinding
	// Opening brings the view to the position.
	Opening
	// Completing folds the decided batch again, to the end that was decided.
	Completing
	// Folding cuts batches as messages come.
	Folding
	// Ending seals what is left before the last sequence of the fold.
	Ending
	// Ended is final: everything up to the last sequence is folded.
	Ended
	// Refused is final: the stream has lost what is folded. Only an operator can
	// help.
	Refused

	states = iota
)

var stateNames = [states]string{
	"asking", "comparing", "skipping", "adopting", "rewinding", "opening", "completing", "folding", "ending",
	"ended", "refused",
}

func (s State) String() string { return stateNames[s] }

// Event is what a session finds out in a state.
type Event uint8

const (
	// Answered: the sink has said how far the view is.
	Answered Event = iota
	// Agreed: the stream, the lease and the sink go together.
	Agreed
	// Dropped: the stream no longer has the messages of the decided batch.
	Dropped
	// Ahead: the sink is beyond the lease, and the stream begins behind that.
	Ahead
	// Remade: the stream ends before the position, and the fold may begin again.
	Remade
	// Lost: the stream has lost messages that were folded.
	Lost
	// Moved: the position was moved.
	Moved
	// OpenedFree: the view is at the position, and no batch is decided.
	OpenedFree
	// OpenedDecided: the view is at the position, and a batch behind it is decided.
	OpenedDecided
	// Completed: the decided batch is sealed with its decided end.
	Completed
	// Reached: the last message of a fold that ends is folded.
	Reached
	// Sealed: the last batch is handed to the flusher.
	Sealed

	events = iota
)

var eventNames = [events]string{
	"answered", "agreed", "dropped", "ahead", "remade", "lost", "moved", "opened free", "opened decided",
	"completed", "reached", "sealed",
}

func (e Event) String() string { return eventNames[e] }

// transitions is every step that a session can take.
var transitions = [states]map[Event]State{
	Asking:     {Answered: Comparing},
	Comparing:  {Agreed: Opening, Dropped: Skipping, Ahead: Adopting, Remade: Rewinding, Lost: Refused},
	Skipping:   {Moved: Comparing},
	Adopting:   {Moved: Opening},
	Rewinding:  {Moved: Opening},
	Opening:    {OpenedFree: Folding, OpenedDecided: Completing},
	Completing: {Completed: Folding},
	Folding:    {Reached: Ending},
	Ending:     {Sealed: Ended},
}

// Next returns the state that an event leads to. An event that the state does
// not know is a mistake of this package.
func (s State) Next(e Event) (State, error) {
	next, ok := transitions[s][e]
	if !ok {
		return s, fmt.Errorf("fold: %s is not expected while %s", e, s)
	}
	return next, nil
}

// machine is the state of one session. One goroutine at a time uses it.
type machine struct {
	state State
	log   *slog.Logger
	// watch is called before each step, and ends the session with its error. It is
	// for tests, and nil else.
	watch func(from State, e Event, to State) error
}

// step takes the transition of an event.
func (m *machine) step(e Event) error {
	next, err := m.state.Next(e)
	if err != nil {
		return err
	}
	if m.watch != nil {
		if err := m.watch(m.state, e, next); err != nil {
			return err
		}
	}
	m.log.Debug("fold", "state", m.state.String(), "event", e.String(), "next", next.String())
	m.state = next
	return nil
}
