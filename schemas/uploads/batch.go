package uploads

import (
	"cmp"
	"errors"
	"time"
)

// Bounds are those of a batch, and what it may take. The zero value of a field stands for its default.
type Bounds struct {
	MinRows  int           // default 64
	MaxRows  int           // default 10,000
	MaxBytes int           // of the rows' content; default 4 MiB. A single row may have more
	P50      time.Duration // below it, batches grow; default 100 ms
	P95      time.Duration // above it, batches shrink; default 500 ms
}

// WithDefaults returns the bounds with defaults in place of zeros, or an error that names the setting.
func (b Bounds) WithDefaults() (Bounds, error) {
	b.MinRows = cmp.Or(b.MinRows, 64)
	b.MaxRows = cmp.Or(b.MaxRows, 10_000)
	b.MaxBytes = cmp.Or(b.MaxBytes, 4<<20)
	b.P50 = cmp.Or(b.P50, 100*time.Millisecond)
	b.P95 = cmp.Or(b.P95, 500*time.Millisecond)
	switch {
	case b.MinRows < 1 || b.MaxRows < b.MinRows || b.MaxRows > 100_000:
		return b, errors.New("batches: want 1 <= MINIMUM <= MAXIMUM <= 100000 rows")
	case b.MaxBytes < 64<<10 || b.MaxBytes > 64<<20:
		return b, errors.New("batches: want 64 KiB to 64 MiB as the most bytes of a batch")
	case b.P50 < time.Millisecond || b.P95 < b.P50:
		return b, errors.New("batches: want 1 ms <= P50 <= P95")
	}
	return b, nil
}

// Batch decides how many rows the next transaction has, by what the ones before it took. It is for one
// goroutine.
type Batch struct {
	bounds Bounds
	rows   int
	mean   time.Duration // of transactions: an exponentially weighted moving average
}

// NewBatch starts with the fewest rows. The bounds have their defaults.
func NewBatch(b Bounds) *Batch { return &Batch{bounds: b, rows: b.MinRows} }

// Rows is how many rows the next batch may have.
func (b *Batch) Rows() int { return b.rows }

// MaxBytes is how many bytes it may have, if it has more than one row.
func (b *Batch) MaxBytes() int { return b.bounds.MaxBytes }

// Mean is how long transactions take at present.
func (b *Batch) Mean() time.Duration { return b.mean }

// weight of the newest transaction in the mean.
const weight = 0.4

// Took tells how long a batch of so many rows took, and whether it waited for a connection. Batches that
// are not full, as at the end of a file or where rows are large, say nothing about larger ones.
func (b *Batch) Took(rows int, took time.Duration, waited bool) {
	b.mean = cmp.Or(b.mean, took)
	b.mean += time.Duration(weight * float64(took-b.mean))
	switch {
	case waited, b.mean > b.bounds.P95:
		b.rows = max(b.rows/2, b.bounds.MinRows)
	case took < b.bounds.P50 && b.mean < b.bounds.P50 && rows >= b.rows:
		b.rows = min(2*b.rows, b.bounds.MaxRows)
	}
}

// Failed tells that a batch could not be written.
func (b *Batch) Failed() { b.rows = max(b.rows/4, b.bounds.MinRows) }
