package emit

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

// brief is what logs and metrics need of an event.
type brief struct{ stage, urlHash, service string }

func briefOf(r *event.Record) brief {
	return brief{string(r.Stage), shortHash(r.URLHash), string(r.ServiceName)}
}

// shortHash is the part of a URL's hash that idempotency keys have.
func shortHash(hash [sha256.Size]byte) string { return hex.EncodeToString(hash[:4]) }

// lostLines is how many events the log of lost events names within a second.
// The others are a number: an outage must not drown a service's log.
const lostLines = 100

// lostLog logs events that are lost, each as it is lost.
type lostLog struct {
	log     *slog.Logger
	service string

	mu     sync.Mutex
	since  time.Time // when the second began that lines counts
	lines  int
	silent int // events that were not named, and are told when the second is over
}

func (l *lostLog) report(b brief, err error) {
	if l.mayName() {
		l.log.Warn("pipeline event not emitted", "stage", b.stage, "url_hash", b.urlHash,
			"service", b.service, "error", err)
	}
}

// mayName tells whether an event gets a line of its own. One that gets none is
// counted.
func (l *lostLog) mayName() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.since) >= time.Second {
		l.since, l.lines = now, 0
	}
	if l.lines < lostLines {
		l.lines++
		return true
	}
	if l.silent == 0 {
		time.AfterFunc(time.Second-now.Sub(l.since), l.tell)
	}
	l.silent++
	return false
}

// tell logs how many events were lost without a line of their own.
func (l *lostLog) tell() {
	l.mu.Lock()
	n := l.silent
	l.silent = 0
	l.mu.Unlock()
	if n > 0 {
		l.log.Warn("more pipeline events not emitted", "service", l.service, "events", n)
	}
}
