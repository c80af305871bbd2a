package fold

import (
	"cmp"
	"time"
)

// Config of a Fold. The zero value of a field stands for its default.
type Config struct {
	// Upto is the last sequence that is folded; default 0: there is no last one.
	Upto uint64
	// Rewind begins at the start of an input that was made anew, which is for views
	// that a repeat does not change. Default: that is an error.
	Rewind bool
	// BatchMessages bounds the messages of a batch; default 100,000.
	BatchMessages int
	// MinInterval is the least time between the starts of two batches that are not
	// full; default 150 ms. The first message after a pause is not delayed.
	MinInterval time.Duration
	// MaxInterval bounds how far a slow sink stretches that time, to twice what the
	// last batch took; default 1 s.
	MaxInterval time.Duration
	// Lease is how long a silent owner keeps the lease; default 10 s.
	Lease time.Duration
	// Grace is how long what has begun may take to complete after the context of
	// Run has ended; default 0.
	Grace time.Duration
	// LeaderLag is how long an input may seem to end before what was folded of it,
	// because a new leader of a cluster catches up; default 15 s.
	LeaderLag time.Duration
}

func (c Config) withDefaults() Config {
	c.BatchMessages = cmp.Or(c.BatchMessages, 100_000)
	c.MinInterval = cmp.Or(c.MinInterval, 150*time.Millisecond)
	c.MaxInterval = cmp.Or(c.MaxInterval, time.Second)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.LeaderLag = cmp.Or(c.LeaderLag, 15*time.Second)
	return c
}

// Stop is an error that starting again does not mend.
type Stop struct{ Err error }

func (s *Stop) Error() string { return s.Err.Error() }

func (s *Stop) Unwrap() error { return s.Err }
