package uploads

import (
	"errors"
	"time"
)

// Locks bound the lease of the items of uploads: how long a worker may say nothing of one before another gets it. The zero
// value of a field stands for its default.
type Locks struct {
	Floor time.Duration // default 10 s
	Cap   time.Duration // default 5 minutes
}

// WithDefaults returns the bounds with defaults in place of zeros, or an error that names the setting.
func (l Locks) WithDefaults() (Locks, error) {
	if l.Floor == 0 {
		l.Floor = 10 * time.Second
	}
	if l.Cap == 0 {
		l.Cap = 5 * time.Minute
	}
	if l.Floor < time.Second || l.Cap < l.Floor || l.Cap > 24*time.Hour {
		return l, errors.New("leases of uploads: want 1 s <= FLOOR <= CAP <= 24 hours")
	}
	return l, nil
}

// Held is how long workers have items of an upload.
type Held struct {
	Mean time.Duration // a moving average; 0: no item has ended yet
	// Least is the shortest lease that would have done for the items of late.
	Least time.Duration
}

// Lease returns the lease of a queue whose own one is set, by the uploads that are worked in it: twice the mean of the slowest,
// and no less than would have done for its items of late. A lease that is set beyond a bound moves the bound. While nothing
// is known of an upload, the lease is no shorter than the one that is set.
func (l Locks) Lease(set time.Duration, uploads []Held) time.Duration {
	lease := time.Duration(0)
	for _, u := range uploads {
		want := max(2*u.Mean, u.Least)
		if u.Mean == 0 {
			want = max(want, set)
		}
		lease = max(lease, want)
	}
	return min(max(lease, min(l.Floor, set)), max(l.Cap, set))
}
