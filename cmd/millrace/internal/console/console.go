package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/millrace-io/millrace/schemas/instant"
)

// Console is what a command reads from and writes to.
type Console struct {
	Ctx      context.Context // ends with the first SIGINT or SIGTERM
	In       io.Reader
	Out, Err io.Writer
}

// UsageError is a wrong use of a command that only its run has found.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

// IsTerminal tells whether somebody sits at what is read or written.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// confirm returns nil if somebody wants a thing done: who has said so with a
// flag, or says so on the terminal.
func (c *Console) confirm(yes bool, what string) error {
	if yes {
		return nil
	}
	if !IsTerminal(c.In) || !IsTerminal(c.Err) {
		return &UsageError{"nobody can be asked whether to " + what + ": --yes does it without asking"}
	}
	if _, err := fmt.Fprintf(c.Err, "%s%s? [y/N] ", strings.ToUpper(what[:1]), what[1:]); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(c.In).ReadString('\n') // none is no
		answer <- line
	}()
	select {
	case <-c.Ctx.Done():
		return c.Ctx.Err()
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return errors.New("nothing was done")
	}
}

// nothing says why a command has done nothing, which is no failure.
func (c *Console) nothing(format string, parts ...any) error {
	_, err := fmt.Fprintf(c.Err, "nothing to do: %s\n", Plain(fmt.Sprintf(format, parts...)))
	return err
}

// PrintJSON prints a document for people to read, too.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printLines prints documents, a line each.
func printLines(w io.Writer, documents []json.RawMessage) error {
	var b bytes.Buffer
	for _, document := range documents {
		if err := json.Compact(&b, document); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Plain escapes what could steer a terminal: events and letters hold what
// anyone has published. Line ends stay.
func Plain(s string) string {
	if !strings.ContainsFunc(s, steers) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if steers(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func steers(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }

// Moment is a time, or how long it is ago.
type Moment struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Moment) UnmarshalText(text []byte) (err error) {
	if d, err := time.ParseDuration(string(text)); err == nil && d >= 0 {
		m.Time = time.Now().Add(-d)
		return nil
	}
	if m.Time, err = instant.Parse(string(text)); err != nil {
		return errors.New(`must be a time such as "2026-02-10T14:30:00Z", or so long ago, such as "24h"`)
	}
	return nil
}

// parameter is the moment as the API takes it; empty: none was given.
func (m Moment) parameter() string {
	if m.IsZero() {
		return ""
	}
	return m.UTC().Format(time.RFC3339Nano)
}
