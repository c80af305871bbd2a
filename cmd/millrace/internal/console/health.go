package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// readiness is what a server says of its dependencies, ready or not.
func (s Server) readiness(ctx context.Context) (r httpapi.Readiness, err error) {
	resp, err := s.send(ctx, http.MethodGet, "ready", nil, nil)
	if err != nil {
		return r, err
	}
	return r, s.decode(resp, &r, http.StatusServiceUnavailable)
}

// health is what a server says of itself.
func (s Server) health(ctx context.Context) (h httpapi.Health, err error) {
	resp, err := s.send(ctx, http.MethodGet, "health", nil, nil)
	if err != nil {
		return h, err
	}
	return h, s.decode(resp, &h)
}

// WriteReadiness prints an answer of /ready in words.
func WriteReadiness(w io.Writer, answer []byte, now time.Time) error {
	var r httpapi.Readiness
	if err := json.Unmarshal(answer, &r); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if _, err := fmt.Fprintln(w, Plain(r.Status)); err != nil {
		return err
	}
	return checkTable(r.Checks, now).write(w, "  ")
}

// WriteHealth prints an answer of /health in words.
func WriteHealth(w io.Writer, answer []byte) error {
	var h httpapi.Health
	if err := json.Unmarshal(answer, &h); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	text := h.Status + ", version " + h.Version + "\n"
	for _, engine := range slices.Sorted(maps.Keys(h.Confinement)) {
		text += "  " + engine + " is confined by " + h.Confinement[engine] + "\n"
	}
	for _, off := range h.Off {
		text += "  " + off.System + " is off: "
		if off.Part != "" {
			text += "its part " + off.Part + " fails: "
		}
		text += off.Reason + "\n"
	}
	for _, damage := range h.Damage {
		text += "  damage: " + damage + "\n"
	}
	for _, warning := range h.Warnings {
		text += "  warning: " + warning + "\n"
	}
	_, err := io.WriteString(w, Plain(text))
	return err
}

func checkTable(checks []httpapi.CheckStatus, now time.Time) *table {
	t := newTable("PART", "STATUS", "FOR", "")
	for _, c := range checks {
		t.add(c.Name, c.Status, short(now.Sub(c.Since)), checkNote(c))
	}
	return t
}

func checkNote(c httpapi.CheckStatus) string {
	note := c.Error
	add := func(text string) {
		if note != "" {
			note += "; "
		}
		note += text
	}
	if c.Status == "down" && !c.Needed {
		add("the server does its work without it")
	}
	if c.Warning != "" {
		add(c.Warning)
	}
	if c.Behind != nil && *c.Behind > 0 {
		add(many(*c.Behind, "message", "messages") + " behind")
	}
	return note
}
