package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// TestReadsNothing: a caller that reads nothing of a long answer loses it, and its
// connection.
func TestReadsNothing(t *testing.T) {
	f := newServer(t, Config{WriteTimeout: 50 * time.Millisecond})
	failed := make(chan error, 1)
	f.base.Get("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for page := make([]byte, 1<<20); ; {
			if _, err := w.Write(page); err != nil {
				failed <- err
				return
			}
		}
	})
	addr, end := running(t, f)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "GET /api/v1/endless HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the answer still waits for its reader")
	}
	conn.Close()
	if err := end(); err != nil {
		t.Error(err)
	}
}

// timed counts the deadlines that it is given, and the writes.
type timed struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
	writes    int
}

func (w *timed) SetWriteDeadline(at time.Time) error {
	w.deadlines = append(w.deadlines, at)
	return nil
}

func (w *timed) Write(p []byte) (int, error) {
	w.writes++
	return w.ResponseRecorder.Write(p)
}

// TestWriteDeadlines: each piece of an answer has a deadline of its own, unless
// the handler sets them.
func TestWriteDeadlines(t *testing.T) {
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	r := &recorder{ResponseWriter: w, patience: time.Hour}
	if n, err := r.Write(make([]byte, 2*writeSize+1)); n != 2*writeSize+1 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := r.Write(nil); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if len(w.deadlines) != 4 || w.writes != 4 || w.Body.Len() != 2*writeSize+1 || r.bytes != 2*writeSize+1 {
		t.Errorf("%d deadlines for %d writes, %d bytes of %d", len(w.deadlines), w.writes, w.Body.Len(), r.bytes)
	}
	own := time.Unix(1, 0)
	if err := http.NewResponseController(r).SetWriteDeadline(own); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(r, "x"); err != nil {
		t.Fatal(err)
	}
	r.Flush()
	if len(w.deadlines) != 5 || !w.deadlines[4].Equal(own) {
		t.Errorf("the handler's deadline gave way: %v", w.deadlines)
	}
}
