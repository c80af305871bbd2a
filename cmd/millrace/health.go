package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

type healthCmd struct {
	Addr    string        `help:"Address of the HTTP server." env:"MILLRACE_HTTP_ADDR" name:"http-addr" default:"127.0.0.1:8075"`
	Live    bool          `help:"Ask only whether the process runs, and not whether its dependencies are up."`
	Timeout time.Duration `help:"How long it may take." default:"3s"`
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
	if _, err := fmt.Fprintf(p.out, "%s", text); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return nil
}
