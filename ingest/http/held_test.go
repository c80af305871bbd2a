package ingesthttp

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
)

// TestManyLargeBodies: what bodies take together is bounded, one of few events
// is taken beside them, and all is given back.
func TestManyLargeBodies(t *testing.T) {
	f := start(t, auth.Config{})
	large := bytes.Repeat([]byte(" "), MaxBody-1)
	until := func(bytes int64) {
		t.Helper()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for deadline := time.After(time.Minute); f.bodies.bytes.Load() != bytes; {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("%d bytes are held, want %d", f.bodies.bytes.Load(), bytes)
			}
		}
	}
	var slow []net.Conn
	for range maxHeld / MaxBody { // one more would be refused itself
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(f.url, "http://"), "/api/v1"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		slow = append(slow, conn)
		go func() {
			_, _ = fmt.Fprintf(conn, "POST /api/v1/events/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
				"application/json\r\nContent-Length: %d\r\n\r\n%s", MaxBody, large)
		}()
	}
	until(int64(len(slow)) * (MaxBody - 1 - smallBody))
	if got := f.post("/events/batch", jsonType, large[:MaxBody/2]); got.status != http.StatusServiceUnavailable ||
		got.header.Get("Retry-After") == "" {
		t.Errorf("a large batch beside large bodies: %+v", got)
	}
	if got := f.post("/events", jsonType, text(eventText(1))); got.status != http.StatusCreated {
		t.Errorf("a single event beside large bodies: %+v", got)
	}
	for _, conn := range slow {
		conn.Close()
	}
	until(0)
	if got := f.post("/events/batch", jsonType, large[:MaxBody/2]); got.status != http.StatusBadRequest {
		t.Errorf("a large batch after large bodies: %+v", got)
	}
}

// TestManyTinyItems: a body has room for millions of items that are none, and
// they take no more than the body does.
func TestManyTinyItems(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		split func([]byte) int
	}{
		"list": {`{"events":[0` + strings.Repeat(",0", MaxBody/2-100) + `]}`, func(b []byte) int {
			items, _ := splitBatch(b)
			return len(items)
		}},
		"lines": {strings.Repeat("0\n", MaxBody/2), func(b []byte) int { return len(splitLines(b)) }},
	} {
		body := []byte(c.body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n := c.split(body)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; n != MaxEvents+1 || took > MaxBody {
			t.Errorf("%s: %d items take %d bytes", name, n, took)
		}
	}
}
