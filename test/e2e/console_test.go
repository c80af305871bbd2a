package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// console runs a command that asks the server, and returns its exit status and
// what it printed, with one blank between columns.
func (s *server) console(t *testing.T, args ...string) (status int, out string) {
	t.Helper()
	p := launch(t, []string{"MILLRACE_URL=" + s.url("")}, nil, args...)
	status = p.wait(t, startLimit)
	var lines []string
	for line := range strings.Lines(p.out.String() + p.log.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return status, strings.Join(lines, "\n")
}

// testConsole: what people do at a terminal, on a server with the queue mail.
func testConsole(t *testing.T, s *server) {
	js, err := jetstream.New(s.nats())
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{valid(nil), valid(map[string]any{"stage": "printed"})} {
		if _, err := js.Publish(t.Context(), subjectOf("https://example.com/article-123"), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	s.caughtUp()
	status, out := s.console(t, "status", "--json")
	var state struct {
		Well   bool
		Checks []struct{ Name, Status string }
		Lag    struct{ Groups []struct{ Group int } }
		Stages []struct {
			Stage   string
			LastDay int `json:"last_24h"`
		}
		Queues  []liveQueue
		Letters struct {
			Count   int
			Reasons []struct{ Code, Field string }
		} `json:"dead_letters"`
		Missing map[string]string
	}
	if err := json.Unmarshal([]byte(out), &state); err != nil {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	if status != 0 || !state.Well || len(state.Checks) < 3 || len(state.Lag.Groups) != 1 ||
		len(state.Queues) != len(ownQueues)+1 || len(state.Stages) != 5 || state.Stages[0].LastDay != 1 || len(state.Missing) > 0 ||
		state.Letters.Count != 1 || len(state.Letters.Reasons) != 1 ||
		state.Letters.Reasons[0].Code != "stage_unknown" {
		t.Errorf("status %d: %s", status, out)
	}
	for _, c := range []struct {
		line   string
		status int
		want   string
	}{
		{"status", 0, "attention"},
		{"status --url=http://127.0.0.1:1", 1, "no answer from http://127.0.0.1:1"},
		{"top", 2, "top needs a terminal"},
		{"funnel --period=24h", 0, "crawled 1 1 100.0 100.0"},
		{"funnel --source=example_con", 0, "the nearest that has is example_com"},
		{"events --stage=crawled", 0, "crawled example_com e2e https://example.com/article-123"},
		{"events --stage=cooked", 1, "stage: must be one of"},
		{"queues pause mail", 0, "mail is paused"},
		{"queues", 0, "paused"},
		{"queues resume mail", 0, "mail is handed out again"},
		{"queues limits mail --concurrency=7", 0, "concurrency 7"},
		{"queues limits mail", 0, "concurrency 7"},
		{"queues limits shard-worker", 0, "max attempts 20"},
		{"queues pause nobodys", 1, "queue: must be a queue that was made"},
		{"queues retry-failed mail --yes", 0, "nothing to do"},
		{"files", 0, "no files"},
		{"files show none", 1, "filename: must be a file that was registered"},
	} {
		status, out := s.console(t, strings.Fields(c.line)...)
		if status != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%s: status %d, want %d and %q:\n%s", c.line, status, c.status, c.want, out)
		}
	}
	testBulk(t, s)
	testCompletion(t)
}

// testBulk: many items are named and left alone, unless somebody says --yes.
func testBulk(t *testing.T, s *server) {
	status, _, body := s.post("/queues/mail/items", "application/json",
		`{"items":[{"payload":1,"group":"shop"},{"payload":2,"group":"shop"}]}`)
	if status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	command[struct{}](s, "/files/register", `{"filename":"20250101000000","shards":[0,1]}`)
	for _, c := range []struct {
		line   string
		status int
		want   string
	}{
		{"queues cancel mail --group=shop", 2, "cancel 2 items of the group shop in mail: --yes"},
		{"queues cancel mail --group=shop --yes", 0, "2 items were cancelled"},
		{"queues retry-failed mail --state=cancelled", 2, "retry 2 cancelled items of mail: --yes"},
		{"queues retry-failed mail --state=cancelled --yes", 0, "2 items were retried"},
		{"files show 20250101000000", 0, "1 started new new new"},
		{"files cancel 20250101000000", 2, "of which 2 of 2 shards are not done: --yes"},
		{"files cancel 20250101000000 --yes", 0, "is cancelled"},
	} {
		status, out := s.console(t, strings.Fields(c.line)...)
		if status != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%s: status %d, want %d and %q:\n%s", c.line, status, c.status, c.want, out)
		}
	}
}

// testCompletion: bash completes commands, flags and values.
func testCompletion(t *testing.T) {
	const script = `source <("$0" completion bash)
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _millrace "$1" "${!#}" ""; echo "${COMPREPLY[*]}"; }
try "$0" queues re
try "$0" funnel --per
try "$0" funnel --period 2
try "$0" emit /no-such
`
	p := launchProgram(t, "/bin/bash", []string{"PATH=" + os.Getenv("PATH")}, nil, "-c", script, binary)
	if status := p.wait(t, startLimit); status != 0 || p.out.String() != "resume retry-failed\n--period\n24h\n\n" {
		t.Errorf("status %d: %q %s", status, p.out, p.log)
	}
}
