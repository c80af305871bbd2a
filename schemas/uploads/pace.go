package uploads

import (
	"cmp"
	"errors"
	"time"
)

// Pace bounds how many items of a job are in its queue at a time: a slice of its work. The zero value of a field
// stands for its default.
type Pace struct {
	Target time.Duration // that the items of a slice take together; default 5 s
	Min    int           // items of the smallest slice; default 16
	Max    int           // items of the largest one; default 2,000
	Safety float64       // share of the target that is planned; default 0.7
}

// WithDefaults returns the pace with defaults in place of zeros, or an error that names the setting.
func (p Pace) WithDefaults() (Pace, error) {
	p.Target = cmp.Or(p.Target, 5*time.Second)
	p.Min = cmp.Or(p.Min, 16)
	p.Max = cmp.Or(p.Max, 2000)
	p.Safety = cmp.Or(p.Safety, 0.7)
	switch {
	case p.Target < 100*time.Millisecond || p.Target > time.Minute:
		return p, errors.New("slices: want 100 ms to 1 minute as their target")
	case p.Min < 1 || p.Max < p.Min || p.Max > 10_000:
		return p, errors.New("slices: want 1 <= MINIMUM <= MAXIMUM <= 10000 items")
	case p.Safety < 0.1 || p.Safety > 1:
		return p, errors.New("slices: want 0.1 to 1 as the share of the target that is planned")
	}
	return p, nil
}

// Growth of slices.
const (
	growth = 1.5 // at most, from one slice to the next
	sudden = 5   // times as many items as the target allows shrink a slice at once
)

// Slice is how far the work on a job's present slice is.
type Slice struct {
	Items   int           // it has; 0: there was none yet
	Ended   int           // of these
	Age     time.Duration // since it began
	Service time.Duration // that a worker takes for an item, on average; 0: none has ended yet
	Workers int           // items that workers have at present
}

// Next returns how many items the slice has, and whether that is a new one: the one before has ended, or its time is
// over. A slice that is far too large shrinks at once.
func (p Pace) Next(s Slice) (items int, fresh bool) {
	want := p.Max
	if s.Service > 0 {
		want = int(min(float64(p.Target)/float64(s.Service)*p.Safety*float64(max(s.Workers, 1)), float64(p.Max)))
	}
	switch {
	case s.Items == 0:
		return p.Min, true
	case want*sudden < s.Items:
		return max(want, p.Min), true
	case s.Ended < s.Items && s.Age < p.Target, s.Service == 0:
		return s.Items, false
	}
	return max(p.Min, min(want, int(growth*float64(s.Items))+1, p.Max)), true
}
