package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/integrity"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestAcceptLoss: the command names what it accepts, and then there is nothing more
// to accept.
func TestAcceptLoss(t *testing.T) {
	ctx := t.Context()
	srv := natstest.Start(t, stream.Config{})
	file := filepath.Join(t.TempDir(), "streams")
	check := func() *integrity.Checker {
		t.Helper()
		c, err := integrity.New(integrity.Config{File: file}, srv.Connect(), prometheus.NewRegistry(),
			slog.New(slog.DiscardHandler))
		if err == nil {
			err = c.Look(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if _, err := srv.JetStream().Publish(ctx, "events.crawled.00", nil); err != nil {
		t.Fatal(err)
	}
	check()
	srv.Stop()
	if err := os.RemoveAll(filepath.Join(srv.Dir(), "jetstream", "MILLRACE", "streams", stream.Events)); err != nil {
		t.Fatal(err)
	}
	srv.Start()
	if err := stream.Ensure(ctx, srv.JetStream(), stream.Config{}); err != nil {
		t.Fatal(err)
	}
	c := check()
	if text := strings.Join(c.Damage(), "\n"); !strings.Contains(text, "EVENTS has lost 1 messages: sequences 1 ") {
		t.Errorf("found is %s", text)
	}
	call := func(says string, args ...string) {
		t.Helper()
		var out, errOut bytes.Buffer
		args = append([]string{"accept-loss", "--nats-url=" + srv.URL()}, args...)
		if got := run(args, nil, &out, &errOut, 0); got != 0 || !strings.Contains(out.String(), says) {
			t.Errorf("%v ended with %d, and without %q:\n%s%s", args, got, says, &out, &errOut)
		}
	}
	call("accepted the loss of 1 messages: sequences 1\n", "--stream=EVENTS")
	call("nothing to accept", "--stream=EVENTS")
	if err := c.Look(ctx); err != nil || len(c.Damage()) > 0 {
		t.Errorf("%v, %q", err, c.Damage())
	}
}
