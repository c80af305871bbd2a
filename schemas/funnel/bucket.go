package funnel

import "time"

// Width is the length of a bucket in seconds.
type Width uint32

// Widths of buckets, each a multiple of the one before.
const (
	Quarter Width = 15 * 60
	Hour    Width = 60 * 60
	Day     Width = 24 * 60 * 60
)

// Widths lists the widths of buckets from fine to coarse.
var Widths = [...]Width{Quarter, Hour, Day}

// AllSources is the source of rows that count every source together. No event
// can have it, since source_name must not be empty.
const AllSources = ""

// Floor returns the start of the bucket that a time in Unix seconds lies in.
func (w Width) Floor(sec int64) int64 { return sec - sec%int64(w) }

// Key names a row of the funnel view.
type Key struct {
	Width  Width
	Bucket uint32 // start, Unix seconds
	Source string
	Stage  string
	// Recent tells the row of what was counted since the other one was written. The
	// two add up.
	Recent bool
}

// Span is a run of buckets of one width, [From, To) in Unix seconds.
type Span struct {
	Width    Width
	From, To int64
}

// Align returns the largest run of whole quarters within [from, to): what
// buckets can answer. It is empty (start == end) when there is none; what is
// left on either side has to be counted from single events.
func Align(from, to time.Time) (start, end time.Time) {
	q := int64(Quarter)
	lo := from.Unix()
	if from.Nanosecond() > 0 {
		lo++
	}
	lo = (lo + q - 1) / q * q
	hi := Quarter.Floor(to.Unix())
	if hi < lo {
		hi = lo
	}
	return time.Unix(lo, 0).UTC(), time.Unix(hi, 0).UTC()
}

// Cover returns the fewest buckets that make up [from, to), coarse ones in
// the middle and finer ones at the ends. Both ends must be whole quarters, as
// Align returns them.
func Cover(from, to time.Time) []Span {
	return cover(nil, len(Widths)-1, from.Unix(), to.Unix())
}

func cover(spans []Span, level int, from, to int64) []Span {
	if from >= to {
		return spans
	}
	w := int64(Widths[level])
	if level == 0 {
		return append(spans, Span{Quarter, from, to})
	}
	lo, hi := (from+w-1)/w*w, to/w*w
	if lo >= hi {
		return cover(spans, level-1, from, to)
	}
	spans = cover(spans, level-1, from, lo)
	spans = append(spans, Span{Widths[level], lo, hi})
	return cover(spans, level-1, hi, to)
}
