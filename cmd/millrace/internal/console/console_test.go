package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// commands are those of this package as the program has them.
type commands struct {
	Status     StatusCmd     `cmd:""`
	Top        TopCmd        `cmd:""`
	Funnel     FunnelCmd     `cmd:""`
	Events     EventsCmd     `cmd:""`
	Queues     QueuesCmd     `cmd:""`
	Files      FilesCmd      `cmd:""`
	Sources    SourcesCmd    `cmd:""`
	Batches    BatchesCmd    `cmd:""`
	Jobs       JobsCmd       `cmd:""`
	Completion CompletionCmd `cmd:""`
}

// fake is a server that answers by path, or by method and path, and notes what
// it was asked. An answer is a text, or a function of the request.
type fake struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]any
	asked   []string // "POST /queues/mail/pause {}", without what is before the path of the API
}

func serve(t *testing.T, answers map[string]any) *fake {
	f := &fake{answers: answers}
	f.Server = httptest.NewServer(http.HandlerFunc(f.answer))
	t.Cleanup(func() {
		f.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return f
}

func (f *fake) answer(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/v1")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s%s", r.Method, path, r.URL.RawQuery, &body)))
	a, known := f.answers[r.Method+" "+path]
	if !known {
		a, known = f.answers[path]
	}
	if path == "/live/sse" {
		a, known = f.answers["view "+r.URL.Query().Get("view")]
		if text, ok := a.(string); ok {
			a = "retry: 1000\n\nid: 1\ndata: " + strings.ReplaceAll(text, "\n", "") + "\n\n"
		}
	}
	switch a := a.(type) {
	case string:
		_, _ = w.Write([]byte(a))
	case func(http.ResponseWriter, *http.Request):
		a(w, r)
	}
	if !known {
		refuse(404, "", "", "there is nothing")(w, r)
	}
}

func (f *fake) set(path string, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[path] = answer
}

// changes are the commands that the server has got, without reads.
func (f *fake) changes() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, request := range f.asked {
		if !strings.HasPrefix(request, "GET ") {
			all = append(all, request)
		}
	}
	return all
}

// refuse answers with a problem.
func refuse(status int, field, rule, detail string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		p := map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}
		if field != "" {
			p["errors"] = []map[string]string{{"field": field, "code": "code", "rule": rule}}
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(p)
	}
}

// parse reads a command line, which is separated by blanks.
func parse(t *testing.T, line string) (*kong.Context, error) {
	t.Helper()
	parser, err := kong.New(new(commands), kong.Name("millrace"))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Parse(strings.Fields(line))
}

// run runs a command of the fake server.
func (f *fake) run(t *testing.T, line string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	err = f.runOn(t, line, &Console{Ctx: t.Context(), In: strings.NewReader(""), Out: &b, Err: &b})
	return b.String(), err
}

func (f *fake) runOn(t *testing.T, line string, con *Console) error {
	t.Helper()
	command, err := parse(t, line+" --url="+f.URL)
	if err != nil {
		return err
	}
	return command.Run(con)
}

// mustHave holds an output to lines, of which the columns may be wider.
func mustHave(t *testing.T, out string, lines ...string) {
	t.Helper()
	var shown []string
	for line := range strings.Lines(out) {
		shown = append(shown, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range lines {
		found := false
		for _, line := range shown {
			found = found || line == want
		}
		if !found {
			t.Errorf("no line %q in:\n%s", want, out)
		}
	}
}

// TestBadUsage: what a command cannot mean is refused before a server is asked.
func TestBadUsage(t *testing.T) {
	for line, want := range map[string]string{
		"status --url=ftp://example.com":                     "--url: must be the address of a server",
		"funnel --period=24h --since=1h":                     "--period: must be left out",
		"funnel --period=year":                               "--period must be one of",
		"funnel --since=yesterday":                           "--since: must be a time",
		"events --limit=-1":                                  "--limit: must not be negative",
		"events --follow --until=1h":                         "--until: must be left out",
		"events --follow --limit=0":                          "--limit: must be 1 or more",
		"top --interval=1ms":                                 "--interval: must be from 500ms to 1m",
		"queues pause":                                       "<queue>",
		"queues limits shard-worker --max-items=1":           "a queue of shards has",
		"queues limits mail --rate-per-key=many":             "--rate-per-key: must be a number of starts",
		"queues retry-failed mail --limit=0":                 "--limit: must be from 1 to 10000",
		"queues retry-failed shard-worker --group=a":         "--group: items of shards have none",
		"queues retry-failed shard-worker --state=cancelled": "--state: cancelled items",
		"queues cancel mail":                                 "--group: is required",
		"queues cancel shard-worker --group=a":               "files cancel",
		"files --stage=shard-worker":                         "--stage: needs --status",
		"files list --limit=-1":                              "--limit: must not be negative",
		"sources --limit=-1":                                 "--limit: must not be negative",
		"jobs list --limit=-1":                               "--limit: must not be negative",
		"completion csh":                                     "bash",
	} {
		if _, err := parse(t, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// TestRefusals: what a server answers is told by field and rule, and what to do.
func TestRefusals(t *testing.T) {
	f := serve(t, map[string]any{
		"/events": refuse(400, "stage", "must be one of crawled, indexed", "the request breaks a rule"),
		"/funnel": refuse(401, "", "", "a token is needed"),
		"/queues/mail/pause": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad gateway of a proxy", http.StatusBadGateway)
		},
	})
	for line, want := range map[string]string{
		"events --stage=cooked": "Bad Request: the request breaks a rule; stage: must be one of crawled, indexed",
		"funnel":                `a token is needed (--token; "millrace token" mints one)`,
		"queues pause mail":     "Bad Gateway: bad gateway of a proxy",
		"queues resume mail":    "there is nothing (--url; the role query answers reads, and the role ingest commands)",
	} {
		if _, err := f.run(t, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	f.Close()
	for _, line := range []string{"status", "events", "queues", "files"} {
		if _, err := f.run(t, line); err == nil || !strings.Contains(err.Error(), "no answer from "+f.URL) {
			t.Errorf("%s without a server: %v", line, err)
		}
	}
}

// TestToken: the token goes with every request.
func TestToken(t *testing.T) {
	var got string
	f := serve(t, map[string]any{"/funnel": func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{}`))
	}})
	t.Setenv("MILLRACE_TOKEN", "of-the-environment")
	if _, err := f.run(t, "funnel"); err != nil || got != "Bearer of-the-environment" {
		t.Errorf("%v, %q", err, got)
	}
	if _, err := f.run(t, "funnel --token=of-the-flag"); err != nil || got != "Bearer of-the-flag" {
		t.Errorf("%v, %q", err, got)
	}
}

// TestTable: columns are as wide as what is in them, and nothing steers the
// terminal.
func TestTable(t *testing.T) {
	tb := newTable("NAME", "NUMBER", "")
	tb.add("新闻", 7, "a")
	tb.add("a\x1b[2J\nb", 1234, "")
	var b strings.Builder
	if err := tb.write(&b, "| "); err != nil {
		t.Fatal(err)
	}
	want := "| NAME         NUMBER\n| 新闻              7  a\n| a\\x1b[2J\\nb    1234\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
}

func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
