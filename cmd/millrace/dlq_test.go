package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/ingest/dlq"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// dlqFixture is a server with ten dead letters: odd ones can be replayed.
type dlqFixture struct {
	t    *testing.T
	nats *natstest.Server
	url  string // of a server; empty: commands work on NATS
}

func startDLQ(t *testing.T) dlqFixture {
	t.Helper()
	f := dlqFixture{t: t, nats: natstest.Start(t, stream.Config{})}
	js := f.nats.JetStream()
	for i := 1; i <= 10; i++ {
		m := nats.NewMsg(stream.DeadLetterSubject(stream.Events, uint64(i)))
		m.Header.Set(stream.HeaderCode, "json")
		m.Header.Set(stream.HeaderReason, "must be one JSON object\x1b[2J")
		m.Header.Set(stream.HeaderSubject, "events.crawled.zz")
		m.Data = []byte("\x1b[2J")
		if i%2 == 1 {
			m.Header.Set(stream.HeaderCode, "subject")
			m.Data = fmt.Appendf(nil, `{"article_url":"https://example.com/%d","source_name":"s","stage":"crawled",`+
				`"occurred_at":%q,"service_name":"c"}`,
				i, time.Now().UTC().Format(time.RFC3339))
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// serve has commands work over HTTP.
func (f *dlqFixture) serve() {
	f.t.Helper()
	log := slog.New(slog.DiscardHandler)
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		f.t.Fatal(err)
	}
	letters, err := dlq.New(dlq.Config{Stages: stages}, f.nats.Connect(), log)
	if err != nil {
		f.t.Fatal(err)
	}
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		f.t.Fatal(err)
	}
	letters.Register(endpoint.API{Server: srv, Auth: auth.New(auth.Config{}), Log: log})
	server := httptest.NewServer(srv.Handler())
	f.t.Cleanup(server.Close)
	f.url = server.URL
}

// run runs a command and returns its status and what it prints.
func (f dlqFixture) run(command string) (status int, out, errOut string) {
	f.t.Helper()
	if f.url != "" {
		f.t.Setenv("MILLRACE_URL", f.url)
	} else {
		f.t.Setenv("MILLRACE_NATS_URL", f.nats.URL())
	}
	var o, e bytes.Buffer
	status = run(append([]string{"dlq"}, strings.Fields(command)...), nil, &o, &e, 0)
	return status, o.String(), e.String()
}

// TestDLQCommands: the commands do the same on NATS and over HTTP, and the bare command
// lists.
func TestDLQCommands(t *testing.T) {
	t.Run("NATS", func(t *testing.T) { testDLQCommands(t, startDLQ(t)) })
	t.Run("HTTP", func(t *testing.T) {
		f := startDLQ(t)
		f.serve()
		testDLQCommands(t, f)
	})
}

func testDLQCommands(t *testing.T, f dlqFixture) {
	t.Helper()
	for _, c := range []struct {
		command string
		status  int
		want    string
	}{
		{"", 0, "ORIGIN"},
		{"--limit 3", 0, "3 letters; there may be more"},
		{"list", 0, "ORIGIN"},
		{"list --limit 3", 0, "3 letters; there may be more"},
		{"list --code none", 0, "no dead letters"},
		{"list --limit 0 --since 1h --subject events.>", 0, "EVENTS/10"},
		{"show EVENTS/2", 0, `body:` + "\n" + `\x1b[2J`},
		{"show 11", 1, "there is no such dead letter: 11"},
		{"replay --code subject --dry-run", 0, "dry run: matched 5, replayed 5"},
		{"replay 1 2 EVENTS/99", 1, "there are no dead letters EVENTS/99"},
		{"replay --all", 0, "matched 9, replayed 4 (0 of them by an earlier replay), kept 5, deleted 4\n  kept for " +
			"json: 5\n  letter 2 (EVENTS/2) kept: the event must be"},
		{"purge 2 EVENTS/4", 0, "deleted 2"},
		{"purge --all", 0, "matched 3, replayed 0 (0 of them by an earlier replay), kept 0, deleted 3"},
	} {
		status, out, errOut := f.run(c.command)
		if status != c.status || !strings.Contains(out+errOut, c.want) || strings.ContainsRune(out, 0x1b) {
			t.Errorf("dlq %s: %d\n%s%s", c.command, status, out, errOut)
		}
	}
	if n := len(f.nats.IDs()); n != 5 {
		t.Errorf("%d events were replayed", n)
	}
}

// TestDLQServer: a flag names the installation whatever the environment says, and
// without an address of NATS the commands ask the server at the address of all others.
func TestDLQServer(t *testing.T) {
	f := startDLQ(t)
	f.serve()
	const none = "127.0.0.1:1"
	for _, c := range []struct {
		env, command string
		status       int
		want         string
	}{
		{"MILLRACE_NATS_URL=nats://" + none, "list --url=" + f.url, 0, "ORIGIN"},
		{"MILLRACE_URL=http://" + none, "list --nats-url=" + f.nats.URL(), 0, "ORIGIN"},
		{"MILLRACE_URL=http://" + none, "list", 1, "no answer from http://" + none},
		{"MILLRACE_NATS_URL=nats://" + none, "list", 1, "connect to NATS"},
		{"MILLRACE_NATS_URL=nats://" + none + " MILLRACE_URL=" + f.url, "list", 0, "ORIGIN"},
		{"", "list --url=" + f.url + " --nats-url=" + f.nats.URL(), 2, "--url: must be left out with --nats-url"},
	} {
		t.Run(c.env+" "+c.command, func(t *testing.T) {
			for setting := range strings.FieldsSeq(c.env) {
				name, value, _ := strings.Cut(setting, "=")
				t.Setenv(name, value)
			}
			var out bytes.Buffer
			status := run(append([]string{"dlq"}, strings.Fields(c.command)...), nil, &out, &out, 0)
			if status != c.status || !strings.Contains(out.String(), c.want) {
				t.Errorf("status %d:\n%s", status, &out)
			}
		})
	}
}

func TestDLQJSON(t *testing.T) {
	f := startDLQ(t)
	status, out, _ := f.run("list --json --oldest --limit 2")
	var letter dlq.Letter
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &letter); status != 0 || err != nil ||
		letter.ID != 1 || strings.Count(out, "\n") != 2 {
		t.Errorf("%d %s %v", status, out, err)
	}
	status, out, _ = f.run("show 2 --json")
	var detail dlq.LetterDetail
	if err := json.Unmarshal([]byte(out), &detail); status != 0 || err != nil || detail.Body != "\x1b[2J" {
		t.Errorf("%d %s %v", status, out, err)
	}
	status, out, _ = f.run("replay --all --json")
	var report dlq.LetterReport
	if err := json.Unmarshal([]byte(out), &report); status != 0 || err != nil || report.Replayed != 5 ||
		report.Kept != 5 {
		t.Errorf("%d %s %v", status, out, err)
	}
}

func TestDLQBadUsage(t *testing.T) {
	f := dlqFixture{t: t, nats: natstest.Start(t, stream.Config{})}
	for _, command := range []string{
		"purge", "replay", "purge --all 1", "purge --all --code json", "purge x", "replay 0", "show", "show a/b/c",
		"list --since yesterday", "list --since=-1h",
		"list --subject a..b", "list --limit=-1", "list --stream EVENTS.*", "purge --since 1h --until 2h", "eat",
	} {
		if status, out, errOut := f.run(command); status != 2 || errOut == "" {
			t.Errorf("dlq %s: %d\n%s%s", command, status, out, errOut)
		}
	}
	f.nats.Stop()
	if status, _, errOut := f.run("list"); status != 1 || !strings.Contains(errOut, "connect to NATS") {
		t.Errorf("without a server: %d %s", status, errOut)
	}
}
