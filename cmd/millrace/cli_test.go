package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPrecedence: a flag wins over the environment, and that over the file.
func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "millrace.yaml")
	if err := os.WriteFile(file, []byte("data: file\nnats-user: file\nnats-password: file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MILLRACE_NATS_USER", "environment")
	t.Setenv("MILLRACE_NATS_PASSWORD", "environment")
	var c cli
	parser, err := newParser(&c, t.Output(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"up", "--config=" + file, "--nats-password=flag"}); err != nil {
		t.Fatal(err)
	}
	if c.Up.Data != "file" || c.Up.Engines.NATSUser != "environment" || c.Up.Engines.NATSPassword != "flag" {
		t.Errorf("data %q, user %q, password %q", c.Up.Data, c.Up.Engines.NATSUser, c.Up.Engines.NATSPassword)
	}
}
