package main

import (
	"fmt"
	"sync"
	"time"
)

// ledger remembers what was sent and what was acknowledged.
type ledger struct {
	mu       sync.Mutex
	sent     map[string]*note // by body
	acks     int              // messages acknowledged, repeats included
	failures []string
}

// note is what is known of one body.
type note struct {
	fact  *fact // nil: the event breaks a rule
	acked bool
	at    time.Time // of the first acknowledgement
}

func newLedger() *ledger { return &ledger{sent: map[string]*note{}} }

// sending notes messages before they can be on the stream.
func (l *ledger) sending(items []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range items {
		if l.sent[it.body] == nil {
			l.sent[it.body] = &note{fact: it.fact}
		}
	}
}

func (l *ledger) acknowledged(items []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range items {
		n := l.sent[it.body]
		if !n.acked {
			n.acked, n.at = true, time.Now()
		}
		l.acks++
	}
}

// fail keeps what should not have happened to a publisher.
func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := fmt.Sprintf(format, args...); len(l.failures) < 20 {
		l.failures = append(l.failures, text)
	}
}
