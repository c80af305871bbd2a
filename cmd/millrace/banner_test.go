package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestAnnounce: on a terminal the start ends with where everything is, the page
// first and without passwords, and in a pipe with a line of the log.
func TestAnnounce(t *testing.T) {
	var c cli
	parser, err := newParser(&c, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"up", "--http-addr=0.0.0.0:8080"}); err != nil {
		t.Fatal(err)
	}
	e := servers{postgres: func() string { return "postgres://millrace:secret@127.0.0.1:5432/millrace" }}
	const took = 1500 * time.Millisecond

	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	c.Up.announce(&program{errOut: tty, log: newLogger(logSettings{Format: "auto"}, tty)}, e, took)
	tty.Close()
	shown, _ := io.ReadAll(keys) // it ends with an error where the terminal does
	var found []string
	for line := range strings.Lines(string(shown)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			found = append(found, fields[0]+" "+fields[1])
		}
	}
	want := "Millrace is|page http://127.0.0.1:8080/|NATS nats://127.0.0.1:4222|" +
		"ClickHouse http://127.0.0.1:8123/?user=analyst,|" +
		"Postgres 127.0.0.1:5432,|data ./data|What you|In another|Ctrl-C stops"
	if strings.Join(found, "|") != want || strings.Contains(string(shown), "secret") {
		t.Errorf("on a terminal:\n%s", shown)
	}

	var log bytes.Buffer
	c.Up.announce(&program{errOut: &log, log: newLogger(logSettings{Format: "auto"}, &log)}, e, took)
	if text := log.String(); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, `"msg":"millrace is up","page":"http://127.0.0.1:8080/"`) ||
		!strings.Contains(text, `"took":"1.5s"`) {
		t.Errorf("in a pipe: %s", text)
	}
}

// TestHealthWords: people get the answer in words, and scripts as it is.
func TestHealthWords(t *testing.T) {
	for _, c := range []struct {
		cmd          healthCmd
		answer, want string
	}{
		{
			healthCmd{},
			`{"status":"ready","checks":[{"name":"nats","status":"up","needed":true}]}`,
			"ready\r\n  PART  STATUS  FOR",
		},
		{
			healthCmd{Live: true},
			`{"status":"ok","version":"v1","confinement":{"clickhouse":"seccomp"}}`,
			"ok, version v1\r\n  clickhouse is confined by seccomp",
		},
		{
			healthCmd{Live: true},
			`{"status":"ok","version":"v1","off":[{"system":"jobs","part":"events","reason":"broken"}]}`,
			"ok, version v1\r\n  jobs is off: its part events fails: broken",
		},
		{healthCmd{JSON: true}, `{"status":"ready"}`, `{"status":"ready"}`},
	} {
		keys, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.cmd.print(tty, []byte(c.answer)); err != nil {
			t.Error(err)
		}
		tty.Close()
		if shown, _ := io.ReadAll(keys); !strings.HasPrefix(string(shown), c.want) {
			t.Errorf("%q, want %q", shown, c.want)
		}
		keys.Close()
	}
}
