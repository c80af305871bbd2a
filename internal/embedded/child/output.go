package child

import (
	"bytes"
	"context"
	"strings"
	"sync"
)

const (
	maxLine   = 16 << 10 // longer lines are cut in pieces of this many bytes
	tailLines = 8        // lines of standard error that come with an error
)

// noContext is for log lines, which belong to no request.
var noContext = context.Background()

// lineWriter hands what is written to it on, line by line.
type lineWriter struct {
	emit func(string)
	tail *tail // may be nil
	rest []byte
}

func (w *lineWriter) Write(data []byte) (int, error) {
	n := len(data)
	for {
		line, after, found := bytes.Cut(data, []byte("\n"))
		w.rest = append(w.rest, line...)
		if !found {
			break
		}
		w.flush()
		data = after
	}
	if len(w.rest) >= maxLine {
		w.flush()
	}
	return n, nil
}

// flush hands on what is left: at the end, a line that was not ended.
func (w *lineWriter) flush() {
	line := strings.TrimRight(string(w.rest), "\r")
	w.rest = w.rest[:0]
	if strings.TrimSpace(line) == "" {
		return
	}
	if w.tail != nil {
		w.tail.add(line)
	}
	w.emit(line)
}

// tail keeps the last lines.
type tail struct {
	mu   sync.Mutex
	last []string
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.last) == tailLines {
		copy(t.last, t.last[1:])
		t.last = t.last[:tailLines-1]
	}
	t.last = append(t.last, line)
}

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.last...)
}

// quoteTail puts the last lines behind an error, on its one line.
func quoteTail(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.Join(lines, " | ")
}

// capture keeps a program's output. The copying goroutine has ended by the time
// that it is read.
type capture struct{ bytes.Buffer }
