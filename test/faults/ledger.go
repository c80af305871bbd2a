package main

import (
	"fmt"
	"sync"
	"time"
)

// ledger remembers what was sent and what was acknowledged.
type ledger struct {
	mu       sync.Mutex
	sent     map[string]*note                 // by body; nil when only identities are kept
	ids      map[string]map[[16]byte]struct{} // by stage: identities acknowledged, when only they are kept
	acks     int                              // messages acknowledged, repeats included
	failures []string
}

// note is what is known of one body.
type note struct {
	fact  *fact // nil: the event breaks a rule
	acked bool
	at    time.Time // of the first acknowledgement
}

func newLedger() *ledger { return &ledger{sent: map[string]*note{}} }

// newTotals makes a ledger for more events than can be remembered whole.
func newTotals() *ledger { return &ledger{ids: map[string]map[[16]byte]struct{}{}} }

// sending notes messages before they can be on the stream.
func (l *ledger) sending(items []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range items {
		if l.sent != nil && l.sent[it.body] == nil {
			l.sent[it.body] = &note{fact: it.fact}
		}
	}
}

func (l *ledger) acknowledged(items []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks += len(items)
	for _, it := range items {
		if l.sent == nil {
			l.total(it.fact)
		} else if n := l.sent[it.body]; !n.acked {
			n.acked, n.at = true, time.Now()
		}
	}
}

// total notes the identity of an event; of what breaks a rule it notes nothing.
func (l *ledger) total(f *fact) {
	if f == nil || !f.valid(time.Now()) {
		return
	}
	if l.ids[f.stage] == nil {
		l.ids[f.stage] = map[[16]byte]struct{}{}
	}
	l.ids[f.stage][[16]byte([]byte(f.id))] = struct{}{}
}

// fail keeps what should not have happened to a publisher.
func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := fmt.Sprintf(format, args...); len(l.failures) < 20 {
		l.failures = append(l.failures, text)
	}
}
