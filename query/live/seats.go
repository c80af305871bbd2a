package live

import (
	"container/list"
	"sync"
)

// Seats are the seats of one kind. They are safe for concurrent use.
//
// While there are free seats a caller may have all of them. Afterwards a newcomer gets the
// newest seat of the caller that has most, provided that this caller still has at least as
// many as the newcomer's then.
type Seats struct {
	most int

	mu      sync.Mutex
	taken   int
	callers map[string]*list.List // of *Seat, the newest last; no list is empty
}

// Seat is one that a caller has.
type Seat struct {
	seats  *Seats
	caller string
	place  *list.Element // nil: the caller has it no more
	lose   func()
}

// NewSeats returns so many seats.
func NewSeats(most int) *Seats { return &Seats{most: most, callers: map[string]*list.List{}} }

// Take takes a seat for a caller; false when there is none. If another caller gets the seat
// later, lose is called in its own goroutine: it has to close what the seat was taken for.
func (s *Seats) Take(caller string, lose func()) (*Seat, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most {
		newest := s.newestOfMost(s.count(caller) + 1)
		if newest == nil {
			return nil, false
		}
		s.remove(newest)
		go newest.lose()
	}
	s.taken++
	if s.callers[caller] == nil {
		s.callers[caller] = list.New()
	}
	seat := &Seat{seats: s, caller: caller, lose: lose}
	seat.place = s.callers[caller].PushBack(seat)
	return seat, true
}

// newestOfMost returns the newest seat of the caller that has most, if that is more than some.
// The lock is held.
func (s *Seats) newestOfMost(some int) *Seat {
	var most *list.List
	for _, own := range s.callers {
		if own.Len() > some && (most == nil || own.Len() > most.Len()) {
			most = own
		}
	}
	if most == nil {
		return nil
	}
	return most.Back().Value.(*Seat)
}

// count returns how many seats a caller has. The lock is held.
func (s *Seats) count(caller string) int {
	if own := s.callers[caller]; own != nil {
		return own.Len()
	}
	return 0
}

// remove takes a seat away from its caller. The lock is held.
func (s *Seats) remove(seat *Seat) {
	if seat.place == nil {
		return
	}
	own := s.callers[seat.caller]
	own.Remove(seat.place)
	if seat.place = nil; own.Len() == 0 {
		delete(s.callers, seat.caller)
	}
	s.taken--
}

// Leave frees the seat. Leaving it twice, or after it was lost, is fine.
func (s *Seat) Leave() {
	s.seats.mu.Lock()
	defer s.seats.mu.Unlock()
	s.seats.remove(s)
}

// Taken returns how many seats are taken.
func (s *Seats) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
