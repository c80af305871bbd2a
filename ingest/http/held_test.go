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
	until := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			got := f.post("/events/batch", jsonType, large[:4*smallBody])
			if got.status == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v, want %d", got, want)
			}
		}
	}
	var slow []net.Conn
	for range maxHeld/MaxBody + 1 {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(f.url, "http://"), "/api/v1"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		slow = append(slow, conn)
		go func() {
			_, _ = fmt.Fprintf(conn, "POST /api/v1/events/batch HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", MaxBody, large)
		}()
	}
	until(http.StatusServiceUnavailable)
	if got := f.post("/events", jsonType, text(eventText(1))); got.status != http.StatusCreated {
		t.Errorf("a single event beside large bodies: %+v", got)
	}
	for _, conn := range slow {
		conn.Close()
	}
	until(http.StatusBadRequest)
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
