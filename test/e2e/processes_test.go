package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	fleet "github.com/millrace-io/millrace/internal/processes"
)

// splitStatus is what "millrace status --json" says.
type splitStatus struct {
	Problems  []string
	Lag       *struct{ Groups []struct{ Group int } }
	Queues    []struct{ Name string }
	Letters   *struct{ Count int } `json:"dead_letters"`
	Processes []fleet.Process
}

// TestSplitRoles: the address of a process with one role knows all processes, and what only
// others know: lag, queues and dead letters. One that hangs is named, and one that stops is not.
func TestSplitRoles(t *testing.T) {
	t.Parallel()
	s := up(t)
	serve := func(role string) (*process, string) {
		addr := freePort(t)
		return launch(t, []string{
			"MILLRACE_NATS_URL=" + s.natsURL(), "MILLRACE_DATA=" + s.data, "MILLRACE_HTTP_ADDR=" + addr,
			"MILLRACE_CLICKHOUSE_DSN=" + s.clickhouseDSN("millrace"), "MILLRACE_POSTGRES_DSN=" + s.postgresDSN(),
		}, nil, "serve", "--role="+role), "http://" + addr
	}
	_, ingest := serve("ingest")
	scheduler, _ := serve("scheduler")
	find := func(st splitStatus, roles string) *fleet.Process {
		i := slices.IndexFunc(st.Processes, func(p fleet.Process) bool { return strings.Join(p.Roles, ",") == roles })
		if i < 0 {
			return nil
		}
		return &st.Processes[i]
	}
	await := func(what string, holds func(splitStatus) bool) {
		t.Helper()
		var out string
		defer func() {
			if t.Failed() {
				t.Log(out)
			}
		}()
		poll(t, waitLimit, what, func() bool {
			p := launch(t, nil, nil, "status", "--json", "--url="+ingest)
			p.wait(t, waitLimit)
			out = p.out.String()
			var st splitStatus
			return json.Unmarshal([]byte(out), &st) == nil && holds(st)
		})
	}
	const everything = "ingest,projector,query,scheduler"
	await("the address of ingest to know everything", func(st splitStatus) bool {
		all, one, other := find(st, everything), find(st, "ingest"), find(st, "scheduler")
		return all != nil && one != nil && other != nil && all.Ready && one.Ready && other.Ready && all.Version != "" &&
			st.Lag != nil && len(st.Lag.Groups) == 1 && len(st.Queues) >= len(ownQueues) && st.Letters != nil
	})
	if err := scheduler.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await("the process that hangs to be named", func(st splitStatus) bool {
		p := find(st, "scheduler")
		return p != nil && !p.Answers && slices.ContainsFunc(st.Problems, func(text string) bool {
			return strings.HasPrefix(text, "scheduler on ") && strings.Contains(text, "does not answer")
		})
	})
	for _, signal := range []syscall.Signal{syscall.SIGCONT, syscall.SIGTERM} {
		if err := scheduler.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	if status := scheduler.wait(t, waitLimit); status != 0 {
		t.Fatalf("exit status %d:\n%s", status, scheduler.log)
	}
	await("the process that has stopped to be gone", func(st splitStatus) bool { return find(st, "scheduler") == nil })
	status, answer := answerOf(http.Get(ingest + "/api/v1/processes"))
	for _, secret := range []string{s.secret("clickhouse-password"), s.secret("postgres/password")} {
		if status != http.StatusOK || strings.Contains(string(answer), secret) {
			t.Errorf("%d: the answer has a password, or is none", status)
		}
	}
}
