package dlq

import (
	"context"
	"fmt"
	"slices"
)

// MaxPage is the most letters that a page has.
const MaxPage = 1000

// ListOptions say which letters a page has.
type ListOptions struct {
	Filter Filter
	Oldest bool   // first; otherwise the newest are
	Limit  int    // from 1 to MaxPage
	Cursor uint64 // NextCursor of the page before; 0: the first page
}

// LetterPage is a part of the list, in the order of their becoming letters.
type LetterPage struct {
	Letters []Letter `json:"letters" doc:"Without their bodies"`
	// NextCursor alone tells whether there is more: the search for a rare kind
	// of letter stops at a bound, with fewer letters than the limit.
	NextCursor uint64 `json:"next_cursor,omitempty" doc:"For the next page; absent on the last one. A page may have fewer letters than its limit, even none, and not be the last"`
}

// List returns a page of letters.
func (s *Service) List(ctx context.Context, o ListOptions) (LetterPage, error) {
	if err := o.Filter.Check(); err != nil {
		return LetterPage{}, err
	}
	if o.Limit < 1 || o.Limit > MaxPage {
		return LetterPage{}, &Invalid{Field: "limit", Code: "range", Rule: fmt.Sprintf("must be from 1 to %d", MaxPage)}
	}
	st, err := s.stream(ctx)
	if err != nil {
		return LetterPage{}, err
	}
	state := st.CachedInfo().State
	l := lister{s: s, o: o, first: state.FirstSeq, last: state.LastSeq, letters: []Letter{}}
	if state.Msgs == 0 || (o.Oldest && o.Cursor >= state.LastSeq) {
		return LetterPage{Letters: l.letters}, nil
	}
	if o.Oldest {
		err = l.forward(ctx)
	} else {
		err = l.backward(ctx)
	}
	return LetterPage{Letters: l.letters, NextCursor: l.next}, err
}

// State returns how many letters there are, and the place of the last one.
func (s *Service) State(ctx context.Context) (count, last uint64, err error) {
	st, err := s.stream(ctx)
	if err != nil {
		return 0, 0, err
	}
	state := st.CachedInfo().State
	return state.Msgs, state.LastSeq, nil
}

// lister collects one page. It looks for one letter more than the page has,
// which tells whether there is another page.
type lister struct {
	s           *Service
	o           ListOptions
	first, last uint64
	letters     []Letter
	next        uint64
	seen        int // letters looked at
}

func (l *lister) forward(ctx context.Context) error {
	return l.s.scan(ctx, l.o.Filter.subject(), max(l.first, l.o.Cursor+1), l.last, func(some []found) (bool, error) {
		for i := range some {
			if l.o.Filter.matches(&some[i].Letter) {
				l.letters = append(l.letters, some[i].Letter)
			}
			if l.full() {
				return false, nil
			}
		}
		if l.seen += len(some); l.seen >= l.s.cfg.MaxScan {
			l.next = some[len(some)-1].ID
			return false, nil
		}
		return true, nil
	})
}

// full cuts the letter that does not belong to the page any more.
func (l *lister) full() bool {
	if len(l.letters) <= l.o.Limit {
		return false
	}
	l.letters = l.letters[:l.o.Limit]
	l.next = l.letters[l.o.Limit-1].ID
	return true
}

// The server reads forward only, so the way back goes window by window. They
// grow, for letters that are few and far between, up to a bound on how much
// may be read in vain.
const (
	firstWindow = readLetters
	lastWindow  = 64 << 10
)

func (l *lister) backward(ctx context.Context) error {
	to := l.last
	if l.o.Cursor > 0 {
		to = min(to, l.o.Cursor-1)
	}
	for window := uint64(firstWindow); to >= l.first; window = min(2*window, lastWindow) {
		from := l.first
		if to-l.first >= window {
			from = to - window + 1
		}
		if err := l.window(ctx, from, to); err != nil || l.full() {
			return err
		}
		if l.seen >= l.s.cfg.MaxScan && from > l.first {
			l.next = from
			return nil
		}
		to = from - 1
	}
	return nil
}

// window appends the newest letters of a window, as many as are wanted.
func (l *lister) window(ctx context.Context, from, to uint64) error {
	want := l.o.Limit + 1 - len(l.letters)
	var newest []Letter // in the order of the stream, at most twice as many as wanted
	err := l.s.scan(ctx, l.o.Filter.subject(), from, to, func(some []found) (bool, error) {
		l.seen += len(some)
		for i := range some {
			if !l.o.Filter.matches(&some[i].Letter) {
				continue
			}
			if newest = append(newest, some[i].Letter); len(newest) >= 2*want {
				newest = append(newest[:0], newest[len(newest)-want:]...)
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	if len(newest) > want {
		newest = newest[len(newest)-want:]
	}
	slices.Reverse(newest)
	l.letters = append(l.letters, newest...)
	return nil
}

// Show returns all of one letter. Its id is its number in the DLQ stream, or
// stream/sequence of the message that it was.
func (s *Service) Show(ctx context.Context, id string) (LetterDetail, error) {
	if _, err := parseID(id); err != nil {
		return LetterDetail{}, err
	}
	st, err := s.stream(ctx)
	if err != nil {
		return LetterDetail{}, err
	}
	f, err := s.find(ctx, st, id)
	if err != nil {
		return LetterDetail{}, err
	}
	return f.full(), nil
}
