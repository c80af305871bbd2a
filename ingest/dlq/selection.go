package dlq

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go/jetstream"
)

// Limits of a call that replays or purges.
const (
	MaxIDs     = 1000
	MaxLetters = 10_000
)

// Selection names the letters of a replay or a purge: by their ids, by a
// filter, or all of them. It has to say which.
type Selection struct {
	IDs    []string // at most MaxIDs
	Filter Filter
	All    bool
	// Limit is how many letters of a filter or of all one call takes at most,
	// up to MaxLetters; 0: as many as it can look at.
	Limit  int
	Cursor Cursor // NextCursor of the call before
}

// Check returns, joined, an Invalid for each way in which a selection says nothing,
// too much, or what cannot be.
func (s Selection) Check() error {
	kinds := 0
	for _, given := range [...]bool{len(s.IDs) > 0, !s.Filter.Empty(), s.All} {
		if given {
			kinds++
		}
	}
	var errs []error
	switch {
	case kinds == 0:
		errs = append(errs, &Invalid{Field: "", Code: "selection", Rule: "must say which letters are meant: ids, a filter, or all"})
	case kinds > 1:
		errs = append(errs, &Invalid{Field: "", Code: "selection", Rule: "must have one of ids, a filter, or all"})
	}
	if len(s.IDs) > MaxIDs {
		errs = append(errs, &Invalid{Field: "ids", Code: "length", Rule: fmt.Sprintf("must be at most %d", MaxIDs)})
	}
	if s.Limit < 0 || s.Limit > MaxLetters {
		errs = append(errs, &Invalid{Field: "limit", Code: "range", Rule: fmt.Sprintf("must be from 1 to %d", MaxLetters)})
	}
	for _, id := range s.IDs {
		if _, err := parseID(id); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(append(errs, s.Filter.Check())...)
}

// each hands over the selected letters in slices, oldest first, and notes in
// the report what it finds and where it stops.
func (s *Service) each(
	ctx context.Context, st jetstream.Stream, sel Selection, r *LetterReport, work func([]found) error,
) error {
	if len(sel.IDs) > 0 {
		return s.eachID(ctx, st, sel.IDs, r, work)
	}
	if sel.Limit == 0 {
		sel.Limit = math.MaxInt
	}
	state := st.CachedInfo().State
	upTo := state.LastSeq
	if sel.Cursor.UpTo > 0 {
		upTo = min(upTo, sel.Cursor.UpTo)
	}
	if state.Msgs == 0 || sel.Cursor.After >= upTo {
		return nil
	}
	scanned := 0
	return s.scan(ctx, sel.Filter.subject(), max(state.FirstSeq, sel.Cursor.After+1), upTo,
		func(some []found) (bool, error) {
			chosen, last := sel.choose(some, sel.Limit-r.Matched)
			r.Matched += len(chosen)
			if err := work(chosen); err != nil {
				return false, err
			}
			if scanned += len(some); last == upTo || (r.Matched < sel.Limit && scanned < s.cfg.MaxScan) {
				return true, nil
			}
			r.NextCursor = Cursor{After: last, UpTo: upTo}.String()
			return false, nil
		})
}

// choose returns the letters that match, at most so many, and the sequence of
// the last one that it has looked at.
func (s *Selection) choose(some []found, most int) (chosen []found, last uint64) {
	for _, f := range some {
		if last = f.ID; s.Filter.matches(&f.Letter) {
			chosen = append(chosen, f)
		}
		if len(chosen) == most {
			break
		}
	}
	return chosen, last
}

func (s *Service) eachID(
	ctx context.Context, st jetstream.Stream, ids []string, r *LetterReport, work func([]found) error,
) error {
	var some []found
	bytes := 0
	seen := map[uint64]bool{} // a letter has two ids
	for i, id := range ids {
		f, err := s.find(ctx, st, id)
		switch {
		case errors.Is(err, ErrNotFound):
			r.Missing = append(r.Missing, id)
		case err != nil:
			return err
		case !seen[f.ID]:
			seen[f.ID] = true
			some, bytes = append(some, f), bytes+f.Size
		}
		if bytes < readBytes && i < len(ids)-1 {
			continue
		}
		r.Matched += len(some)
		if err := work(some); err != nil {
			return err
		}
		some, bytes = some[:0], 0
	}
	return nil
}
