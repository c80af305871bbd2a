package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/cmd/millrace/internal/console"
)

type healthCmd struct {
	Addr    string        `help:"Address of the HTTP server." env:"MILLRACE_HTTP_ADDR" name:"http-addr" default:"127.0.0.1:8075"`
	Live    bool          `help:"Ask only whether the process runs, and not whether its dependencies are up."`
	Timeout time.Duration `help:"How long it may take." default:"3s"`
	JSON    bool          `help:"Print the server's answer also on a terminal, which otherwise gets it in words."`
}

// Run asks a server on this machine, for images that hold no other program to
// ask with. It fails when the server is not ready.
func (c *healthCmd) Run(p *program) error {
	path := "/ready"
	if c.Live {
		path = "/health"
	}
	ctx, cancel := context.WithTimeout(p.ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+dialable(c.Addr)+path, nil)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := c.print(p.out, text); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return nil
}

// print prints an answer: in words for people.
func (c *healthCmd) print(w io.Writer, text []byte) error {
	if c.JSON || !console.IsTerminal(w) {
		_, err := fmt.Fprintf(w, "%s", text)
		return err
	}
	if c.Live {
		return console.WriteHealth(w, text)
	}
	return console.WriteReadiness(w, text, time.Now())
}
