package console

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// terminal is somebody's, and what is on it.
type terminal struct {
	keys  *os.File // what is typed
	tty   *os.File
	shown *lockedBuffer
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(keys, &pty.Winsize{Rows: 50, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	x := &terminal{keys, tty, new(lockedBuffer)}
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(x.shown, keys) }()
	t.Cleanup(func() {
		tty.Close()
		<-drained
		keys.Close()
	})
	return x
}

func (x *terminal) console(ctx context.Context) *Console {
	return &Console{Ctx: ctx, In: x.tty, Out: x.tty, Err: x.tty}
}

func (x *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := x.keys.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// TestConfirm: on a terminal somebody is asked, and only yes is yes.
func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "\n": false, "n\n": false, "yeah\n": false} {
		f, x := queueServer(t), openTerminal(t)
		ended := make(chan error, 1)
		go func() { ended <- f.runOn(t, "queues retry-failed mail", x.console(t.Context())) }()
		await(t, "the question", func() bool {
			return strings.Contains(x.shown.String(), "Retry 2 failed items of mail? [y/N] ")
		})
		x.press(t, answer)
		err := <-ended
		if done := len(f.changes()) == 1; done != want || done != (err == nil) {
			t.Errorf("%q: %v, sent %s", answer, err, f.changes())
		}
	}
}

// TestTop: the status is drawn in place, also while the server is away, and q,
// Ctrl-C and a signal give the terminal back as it was.
func TestTop(t *testing.T) {
	f, x := serve(t, well()), openTerminal(t)
	before, err := term.GetState(int(x.tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(stop func()){
		"q":      func(func()) { x.press(t, "xq") },
		"Ctrl-C": func(func()) { x.press(t, "\x03") },
		"signal": func(stop func()) { stop() },
	} {
		ctx, stop := context.WithCancel(t.Context())
		begin := len(x.shown.String())
		ended := make(chan error, 1)
		go func() { ended <- f.runOn(t, "top --interval=500ms", x.console(ctx)) }()
		shown := func(text string) func() bool {
			return func() bool { return strings.Contains(x.shown.String()[begin:], text) }
		}
		await(t, "the status", shown("stage_unknown"))
		f.set("/health", refuse(503, "", "", "the server goes"))
		await(t, "word of the outage", shown("below is what it was at"))
		f.set("/health", well()["/health"])
		end(stop)
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		stop()
		await(t, "the other screen to be left", shown("\x1b[?25h\x1b[?1049l"))
		after, err := term.GetState(int(x.tty.Fd()))
		if err != nil || *after != *before {
			t.Errorf("%s: the terminal is not as it was: %v", name, err)
		}
		if name == "signal" { // its reader of keys waits for one more
			x.press(t, "q\n")
		}
	}
}

// TestTopElsewhere: top needs a terminal.
func TestTopElsewhere(t *testing.T) {
	f := serve(t, nil)
	if _, err := f.run(t, "top"); err == nil || !strings.Contains(err.Error(), "millrace status") {
		t.Error(err)
	}
}

// TestFit: what has no room is cut, and nothing of the frame before is left.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		text          string
		width, height int
		want          string
	}{
		{"one\ntwo\n", 9, 9, "\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J"},
		{"abcdef\n新闻x\n", 3, 9, "\x1b[Habc\x1b[K\r\n新\x1b[K\x1b[J"},
		{"1\n2\n3\n4\n", 80, 3, "\x1b[H1\x1b[K\r\n2\x1b[K\r\n… and 2 more lines\x1b[K\x1b[J"},
		{"1\n2\n", 80, 2, "\x1b[H1\x1b[K\r\n2\x1b[K\x1b[J"},
		{"1\n2\n3\n", 80, 1, "\x1b[H1\x1b[K\x1b[J"},
	} {
		if got := fit(c.text, c.width, c.height); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// TestShortTerminal: on few lines every part keeps its place, and what is hidden is
// counted.
func TestShortTerminal(t *testing.T) {
	st := Status{
		At: time.Now(), Problems: []string{"nats is down"}, Letters: &Letters{Count: 7},
		Missing: map[string]string{"lag": "no answer"},
	}
	for i := range 30 {
		st.Queues = append(st.Queues, Queue{Name: fmt.Sprint("queue-", i)})
		st.Stages = append(st.Stages, StageRate{Stage: fmt.Sprint("stage-", i)})
		st.Attention = append(st.Attention, fmt.Sprint("queue ", i, " has failed items"))
		st.Checks = append(st.Checks, httpapi.CheckStatus{Name: fmt.Sprint("part-", i)})
	}
	top := &TopCmd{Interval: time.Second}
	for height := 10; height <= 200; height += 1 + height/20 {
		text := top.frame(st, nil, height)
		if n := strings.Count(text, "\n"); n > height {
			t.Errorf("%d lines on a terminal of %d:\n%s", n, height, text)
		}
		for _, title := range []string{"! nats is down", "Lag behind", "Events", "Queues", "Dead letters: 7", "Parts"} {
			if !strings.Contains(text, title) {
				t.Errorf("%d lines have no %s:\n%s", height, title, text)
			}
		}
	}
	mustHave(t, top.frame(st, nil, 10), "Queues (30 rows)")
	mustHave(t, top.frame(st, nil, 24), "queue-0 0 0 0 0 0 0", "… and 29 more")
	if text := top.frame(st, nil, 200); !strings.Contains(text, "queue-29") || strings.Contains(text, "…") {
		t.Errorf("where there is room something is hidden:\n%s", text)
	}
}
