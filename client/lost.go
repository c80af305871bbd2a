package client

import (
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

// brief is what logs and metrics need of an event.
type brief struct{ stage, urlHash, service string }

func briefOf(r *event.Record) brief {
	return brief{string(r.Stage), hex.EncodeToString(r.URLHash[:4]), string(r.ServiceName)}
}

// lostLog logs events that are not delivered: one a second, and how many more
// there were, because an outage must not drown a service's log.
type lostLog struct {
	log *slog.Logger

	mu     sync.Mutex
	last   time.Time
	silent int // events since then that were not logged
}

func (l *lostLog) report(b brief, err error) {
	l.mu.Lock()
	if time.Since(l.last) < time.Second {
		l.silent++
		l.mu.Unlock()
		return
	}
	silent := l.silent
	l.last, l.silent = time.Now(), 0
	l.mu.Unlock()
	l.log.Warn("pipeline event not emitted", "stage", b.stage, "url_hash", b.urlHash, "service", b.service, "error", err, "not_logged_before", silent)
}
