package item

// State is what decides about a move of an item.
type State struct {
	Status     Status
	Generation int32  // 1 at first; see the package comment
	Attempts   int32  // how often it was started; releases do not count
	Allowed    int32  // attempts after which it is dead; 0: any number
	Worker     string // who started it last; empty: nobody named
	Lapsed     bool   // its last move was Expire: whoever had it may still be at work
}

// Ask is a move that somebody asks for.
type Ask struct {
	Move Move
	// Generation is the one that the caller means; 0: whichever it is.
	Generation int32
	// Worker is who asks; empty: unnamed.
	Worker string
	// Takeover lets Start take a started item from whoever has it. The
	// generation has to be named.
	Takeover bool
	// Final has Expire leave no other attempt.
	Final bool
}

// Outcome says what became of a move.
type Outcome int

// The outcomes. Only Changed changes anything.
const (
	Changed   Outcome = iota
	Repeated          // it was made before
	Forbidden         // the status does not allow it
	Fenced            // another worker holds the item, or it has ended
	NotFound          // there is no such item
	Paused            // the stage hands nothing out
	Full              // as many items as the stage allows are started
)

var outcomeNames = [...]string{"changed", "repeated", "forbidden", "fenced", "not_found", "paused", "full"}

func (o Outcome) String() string { return outcomeNames[o] }

// OK tells whether the item is where the caller wants it.
func (o Outcome) OK() bool { return o == Changed || o == Repeated }

// Decide returns the state that an item is in after a move was asked for, and
// what became of the move. Without Changed the state is the old one.
func Decide(it State, ask Ask) (State, Outcome) {
	if ask.Takeover {
		return takeover(it, ask)
	}
	if late(it, ask) {
		it.Status = Done
		return it, Changed
	}
	if o, ok := fence(it, ask); !ok {
		return it, o
	}
	switch ask.Move {
	case Start:
		return start(it, ask)
	case Complete:
		return finish(it, Done, it.Status == Started)
	case Fail:
		return finish(it, Failed, it.Status == New || it.Status == Started)
	case Cancel:
		return finish(it, Failed, it.Status == New || it.Status == Started)
	case Retry:
		return giveBack(it, ask, it.Status == Failed)
	case Release, Again, Expire:
		return giveBack(it, ask, it.Status == Started)
	}
	return it, Forbidden
}

// late tells whether a worker says that it has completed an item after its lease, and
// nobody has begun the item since: then it is done, and no other attempt is needed.
func late(it State, ask Ask) bool {
	if ask.Move != Complete || !it.Lapsed || ask.Generation == 0 || ask.Worker != "" && !same(it, ask) {
		return false
	}
	return it.Status == New && it.Generation == ask.Generation+1 ||
		it.Status == Failed && it.Generation == ask.Generation
}

// Dead tells whether a failed item has no attempt left.
func (it State) Dead() bool { return it.Status == Failed && it.spent() }

func (it State) spent() bool { return it.Allowed > 0 && it.Attempts >= it.Allowed }

// fence refuses a caller who means an earlier generation, or an item that a
// worker of another name has. A move that makes a new generation and is asked
// for again has made it before.
func fence(it State, ask Ask) (Outcome, bool) {
	if ask.Generation != 0 && ask.Generation != it.Generation {
		if ask.Generation+1 == it.Generation && made(it, ask) {
			return Repeated, false
		}
		return Fenced, false
	}
	others := ask.Worker != "" && it.Worker != "" && ask.Worker != it.Worker
	if others && it.Status == Started && ask.Move != Start && ask.Move != Cancel {
		return Fenced, false
	}
	return 0, true
}

func made(it State, ask Ask) bool {
	switch ask.Move {
	case Start:
		return it.Status == Started && same(it, ask)
	case Retry, Release, Again, Expire:
		return it.Status == New
	case Complete:
		return it.Status == Done // late
	}
	return false
}

// same tells whether who asks is who started the item. Of callers without a name
// nobody knows: two of them may have read the same queue.
func same(it State, ask Ask) bool { return ask.Worker != "" && ask.Worker == it.Worker }

// start lets one worker in. A second start is a repeat only from the same one.
func start(it State, ask Ask) (State, Outcome) {
	switch {
	case it.Status == Started && same(it, ask) && ask.Generation == 0:
		return it, Repeated
	case it.Status != New:
		return it, Forbidden
	}
	return taken(it, ask.Worker), Changed
}

func takeover(it State, ask Ask) (State, Outcome) {
	switch {
	case ask.Move != Start || ask.Generation == 0:
		return it, Forbidden
	case ask.Generation != it.Generation:
		return it, Fenced
	case it.Status != Started:
		return it, Forbidden
	}
	return taken(it, ask.Worker), Changed
}

func taken(it State, worker string) State {
	it.Status, it.Worker = Started, worker
	it.Attempts++
	it.Generation++
	return it
}

// finish moves an item to the status in which its worker leaves it.
func finish(it State, to Status, allowed bool) (State, Outcome) {
	if it.Status == to {
		return it, Repeated
	}
	if !allowed {
		return it, Forbidden
	}
	it.Status = to
	return it, Changed
}

// giveBack moves to new. An item of generation 1 is new because it never was
// anything else: then nothing is repeated.
func giveBack(it State, ask Ask, allowed bool) (State, Outcome) {
	move := ask.Move
	counts := move == Again || move == Expire
	switch {
	case it.Status == New && it.Generation > 1, counts && it.Dead():
		return it, Repeated
	case !allowed:
		return it, Forbidden
	case counts && it.spent() || ask.Final:
		it.Status = Failed
		return it, Changed
	case move == Retry && it.spent():
		it.Allowed += it.Attempts // somebody gives it as many again
	case move == Release:
		it.Attempts--
	}
	it.Status = New
	it.Generation++
	return it, Changed
}
