package item

import (
	"cmp"
	"errors"
	"time"
)

// Pacing says how long requests wait after errors of the side that they go to. The zero value of a field stands for its default.
type Pacing struct {
	// The first wait of an item after an error of a class; each further one is twice as long, up to mostWaits times the
	// first. Default 10 s, 5 s and 2 s.
	Throttled, Server, Network time.Duration
	// Delay is the first one between two requests to a host, or a domain, that goes on failing; default 200 ms. It doubles
	// up to MostDelay, default 10 s.
	Delay, MostDelay time.Duration
	// Quiet is for how long a domain has no errors until its delay begins anew; default 1 minute.
	Quiet time.Duration
}

// mostWaits is how many times the first wait of an item the longest is.
const mostWaits = 60

// longestPace bounds all times of a pacing: a mistake in a unit is found at the start.
const longestPace = 24 * time.Hour

// WithDefaults returns the pacing with defaults in place of zeros, or an error that names what is wrong.
func (p Pacing) WithDefaults() (Pacing, error) {
	p.Throttled = cmp.Or(p.Throttled, 10*time.Second)
	p.Server = cmp.Or(p.Server, 5*time.Second)
	p.Network = cmp.Or(p.Network, 2*time.Second)
	p.Delay = cmp.Or(p.Delay, 200*time.Millisecond)
	p.MostDelay = cmp.Or(p.MostDelay, 10*time.Second)
	p.Quiet = cmp.Or(p.Quiet, time.Minute)
	for _, wait := range []time.Duration{p.Throttled, p.Server, p.Network, p.Delay, p.MostDelay, p.Quiet} {
		if wait < time.Millisecond || wait > longestPace {
			return p, errors.New("waits after errors: want 1 ms to 24 hours")
		}
	}
	if p.MostDelay < p.Delay {
		return p, errors.New("waits after errors: the longest delay of a domain must not be shorter than the first")
	}
	return p, nil
}

// Wait returns how long an item waits after so many attempts, of which the last failed with an error of a class: twice
// as long each time. The caller adds jitter.
func (p Pacing) Wait(name string, attempts int32) time.Duration {
	first := p.Network
	switch ClassOf(name) {
	case ClassThrottled:
		first = p.Throttled
	case ClassServer:
		first = p.Server
	}
	return min(first<<min(max(attempts-1, 0), 16), mostWaits*first)
}
