package connlimit

import (
	"io"
	"net"
	"strconv"
	"time"
)

const (
	maxAway  = 32              // connections that are turned away with a word at one time
	awayTime = 2 * time.Second // for a client to send its request and to read the answer
	awayBody = 16 << 20        // of a request that may still come meanwhile
)

const tooMany = "There are too many connections. Try again later.\n"

var refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " +
	strconv.Itoa(len(tooMany)) + "\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" + tooMany

// turnAway answers a connection that there is no room for. When many come at one
// time, some are closed without an answer: they would take the room that the limit
// keeps free.
func (l *Limiter) turnAway(raw net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away == nil || len(l.away) == maxAway {
		_ = raw.Close()
		return
	}
	l.away[raw] = struct{}{}
	l.leaves.Go(func() {
		refuse(raw)
		_ = raw.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.away, raw)
	})
}

// refuse answers a request once it begins to arrive: clients do not expect an
// answer earlier. What it has sent and nobody has read would make closing throw the
// answer away.
func refuse(raw net.Conn) {
	if raw.SetDeadline(time.Now().Add(awayTime)) != nil {
		return
	}
	if _, err := raw.Read(make([]byte, 1<<10)); err != nil {
		return
	}
	if _, err := io.WriteString(raw, refusal); err != nil {
		return
	}
	if half, ok := raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, raw, awayBody)
	}
}
