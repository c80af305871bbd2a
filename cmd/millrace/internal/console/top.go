package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// TopCmd shows the status live.
type TopCmd struct {
	Server   `embed:"" group:"Server"`
	Interval time.Duration `help:"Time between two looks, from 500ms to 1m." default:"2s"`
}

// Validate bounds how often a server is asked.
func (c *TopCmd) Validate() error {
	if c.Interval < 500*time.Millisecond || c.Interval > time.Minute {
		return errors.New("--interval: must be from 500ms to 1m")
	}
	return nil
}

// look is what a server has said when it was asked.
type look struct {
	Status
	err error
}

// Run draws the status in place until somebody presses q or Ctrl-C. While the
// server does not answer, the last status stays, marked as such.
func (c *TopCmd) Run(con *Console) error {
	s, err := openScreen(con)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithCancel(con.Ctx)
	looks, ended := make(chan look), make(chan struct{})
	go func() { defer close(ended); c.watch(ctx, looks) }()
	defer func() { cancel(); <-ended }()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)

	var last look // the last with a status
	var failed error
	for {
		frame := func(height int) string { return c.frame(last.Status, failed, height) }
		if err := s.draw(frame); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.quit:
			return nil
		case <-resized:
		case l := <-looks:
			if failed = l.err; failed == nil {
				last = l
			}
		}
	}
}

// watch asks a server at intervals, never twice at once.
func (c *TopCmd) watch(ctx context.Context, looks chan<- look) {
	for {
		st, err := collect(ctx, c.Server)
		select {
		case <-ctx.Done():
			return
		case looks <- look{st, err}:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.Interval):
		}
	}
}

// frame is what is drawn on so many lines: where they are few, as many rows of each
// table as leave room for all tables.
func (c *TopCmd) frame(st Status, failed error, height int) string {
	head := fmt.Sprintf("every %s, q ends\n", c.Interval)
	if failed != nil {
		head += fmt.Sprintf("! %s\n", Plain(failed.Error()))
	}
	if st.At.IsZero() {
		return head
	}
	if failed != nil {
		head += fmt.Sprintf("! below is what it was at %s\n", st.At.Local().Format(time.TimeOnly))
	}
	whole := head + "\n" + st.text(layout{rows: height, spaced: true})
	for rows := height; strings.Count(whole, "\n") > height && rows >= 0; rows-- {
		whole = head + st.text(layout{rows: rows})
	}
	return whole
}

// screen is a terminal that is drawn on from its upper left corner. What was on
// it before comes back.
type screen struct {
	in, out *os.File
	before  *term.State
	quit    chan struct{} // closed by q or Ctrl-C
}

func openScreen(con *Console) (*screen, error) {
	if !IsTerminal(con.In) || !IsTerminal(con.Out) {
		return nil, &UsageError{"top needs a terminal; elsewhere there is \"millrace status\""}
	}
	s := &screen{in: con.In.(*os.File), out: con.Out.(*os.File), quit: make(chan struct{})}
	var err error
	if s.before, err = term.MakeRaw(int(s.in.Fd())); err != nil {
		return nil, fmt.Errorf("take over the terminal: %w", err)
	}
	if _, err := s.out.WriteString("\x1b[?1049h\x1b[?25l"); err != nil { // the other screen, without a cursor
		s.close()
		return nil, err
	}
	go s.readKeys()
	return s, nil
}

// readKeys ends with the key that ends the program, or with the terminal.
func (s *screen) readKeys() {
	defer close(s.quit)
	key := make([]byte, 1)
	for {
		if _, err := s.in.Read(key); err != nil {
			return
		}
		switch key[0] {
		case 'q', 'Q', 3: // Ctrl-C, which is no signal now
			return
		}
	}
}

func (s *screen) close() {
	_, _ = s.out.WriteString("\x1b[?25h\x1b[?1049l") // there may be no terminal any more
	_ = term.Restore(int(s.in.Fd()), s.before)
}

// draw replaces what is on the screen by as much of a text as has room there. The
// text may depend on the number of lines.
func (s *screen) draw(text func(height int) string) error {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil {
		return fmt.Errorf("look how large the terminal is: %w", err)
	}
	if width < 1 || height < 1 { // of a terminal that does not know its size
		width, height = 80, 24
	}
	_, err = s.out.WriteString(fit(text(height), width, height))
	return err
}

// fit makes the text of one screen: each line ends with what clears its rest.
func fit(text string, width, height int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	switch hidden := len(lines) - height; {
	case hidden > 0 && height < 2:
		lines = lines[:height]
	case hidden > 0:
		lines = append(lines[:height-1], fmt.Sprintf("… and %d more lines", hidden+1))
	}
	for i, line := range lines {
		lines[i] = cut(line, width) + "\x1b[K"
	}
	return "\x1b[H" + strings.Join(lines, "\r\n") + "\x1b[J"
}

// cut leaves as much of a line as is at most so wide.
func cut(line string, width int) string {
	rest, state, at := line, -1, 0
	for rest != "" {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if width -= w; width < 0 {
			return line[:at]
		}
		at += len(cluster)
	}
	return line
}
