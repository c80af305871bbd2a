package e2e

import (
	"sync/atomic"
	"testing"
)

// A client that is told 503 asks again. Tests do so too, but a server that is
// often too busy is broken: at most one answer in busyShare may be 503.
const busyShare = 20

// fewBusy is how many answers of 503 say nothing about the share, in a test that
// asks little: one short pause of the machine takes this many retries.
const fewBusy = 4

// patience counts the requests that a test repeats while the answer is 503. It is
// safe for concurrent use.
type patience struct {
	asked, busy atomic.Int64
	// outage is set while the test itself keeps an engine away. What is answered
	// then is not counted.
	outage atomic.Bool
}

// retry asks until the answer is not that the server is too busy.
func (p *patience) retry(t testing.TB, what string, ask func() (busy bool)) {
	t.Helper()
	poll(t, waitLimit, what+" to be answered other than 503", func() bool {
		busy := ask()
		p.count(busy)
		return !busy
	})
}

func (p *patience) count(busy bool) {
	if p.outage.Load() {
		return
	}
	p.asked.Add(1)
	if busy {
		p.busy.Add(1)
	}
}

// check fails the test if the server was too busy too often.
func (p *patience) check(t testing.TB) {
	t.Helper()
	asked, busy := p.asked.Load(), p.busy.Load()
	if busy > 0 {
		t.Logf("%d of %d requests were answered 503", busy, asked)
	}
	if busy > fewBusy && busy*busyShare > asked {
		t.Errorf("%d of %d requests were answered 503, want at most one in %d", busy, asked, busyShare)
	}
}
