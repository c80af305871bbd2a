package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// TestOlderTables: when the tables in ClickHouse are put back from an older copy while all else
// goes on, all query services come to show what ClickHouse has, and say that rows are missing
// until that is accepted.
func TestOlderTables(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	other := (&proxy{t: t, s: s}).launch("--role=query")
	poll(t, startLimit, "a second query service to be ready", func() bool {
		status, _ := answerOf(http.Get("http://" + other.addr + "/ready"))
		return status == http.StatusOK
	})
	published := 0
	publish := func(n int) {
		t.Helper()
		var lines strings.Builder
		for range n {
			fmt.Fprintln(&lines, valid(map[string]any{
				"source_name": "older", "article_url": fmt.Sprint("https://example.com/older/", published),
			}))
			published++
		}
		if status, _, body := s.post("/events/batch", "application/x-ndjson", lines.String()); status != http.StatusCreated {
			t.Fatalf("status %d: %s", status, body)
		}
	}
	agree := func(what string, want int) {
		t.Helper()
		poll(t, 2*waitLimit, fmt.Sprintf("%s: both query services to show %d events", what, want), func() bool {
			for _, addr := range []string{s.ports.HTTP, other.addr} {
				status, body := answerOf(http.Get("http://" + addr + api + "/funnel?period=24h&source=older"))
				var f funnel
				if status != http.StatusOK || json.Unmarshal(body, &f) != nil || f.Stages[0].Events != want {
					return false
				}
			}
			return true
		})
	}
	sql := func(statement string) string {
		t.Helper()
		status, text := s.asDefault(statement)
		if status != http.StatusOK {
			t.Fatalf("%s: %s", statement, text)
		}
		return text
	}
	publish(300)
	agree("at first", 300)
	tables := strings.Fields(sql("SELECT name FROM system.tables WHERE database = 'millrace' " +
		"AND engine LIKE '%MergeTree' AND name NOT LIKE '%goose%' AND name NOT LIKE '.%'"))
	if len(tables) < 3 {
		t.Fatalf("tables %v", tables)
	}
	for _, table := range tables {
		sql("CREATE TABLE older_" + table + " AS " + table)
		sql("INSERT INTO older_" + table + " SELECT * FROM " + table)
	}
	publish(200)
	agree("before", 500)
	for _, table := range tables {
		sql("TRUNCATE TABLE " + table)
		sql("INSERT INTO " + table + " SELECT * FROM older_" + table)
	}
	publish(50)
	agree("after", 350)
	poll(t, waitLimit, "the missing rows to be told of", func() bool {
		_, body := answerOf(http.Get(s.url("/health")))
		return strings.Contains(string(body), "lacks 200 of the events")
	})
	accept := launch(t, nil, nil, "accept-identities", "--slot-group=0", "--nats-url="+s.natsURL(), "--data="+s.data)
	if status := accept.wait(t, startLimit); status != 0 {
		t.Fatalf("accept-identities: exit status %d: %s", status, accept.log)
	}
	publish(50)
	agree("accepted", 400)
}

// older is the release that installations are upgraded from, as in the Makefile.
const older = "0788331"

// buildOlder builds programs of the older release, and returns the folder that they are in.
func buildOlder(t *testing.T, packages ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	tree := filepath.Join(dir, "tree")
	if out, err := exec.Command("git", "worktree", "add", "--quiet", "--detach", tree, older).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Skipf("without the history of the repository: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("git", "worktree", "remove", "--force", tree).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	for _, name := range packages {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, filepath.Base(name)), name)
		cmd.Dir = tree
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s of %s: %v\n%s", name, older, err, out)
		}
	}
	return dir
}

// TestOlderClients: services and workers of the older release and of this one, in Go, in Node with a stock client of NATS, and
// over HTTP, share a server of this release, and then one of the older. They and the server are killed meanwhile, and nothing
// is lost or doubled.
func TestOlderClients(t *testing.T) {
	slowtest.Mark(t)
	before := buildOlder(t, "./cmd/millrace", "./client/example", "./test/work", "./test/faults") // later ones have no test/work
	now := t.TempDir()
	for _, name := range []string{"client/example", "test/faults"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(now, filepath.Base(name)), "../../"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	node, err := filepath.Abs("../node")
	if err != nil {
		t.Fatal(err)
	}
	for name, bin := range map[string]string{"this": binary, "older": filepath.Join(before, "millrace")} {
		parts := map[string]string{"this": now, "older": before}[name] // with its own NATS
		t.Run("emit to "+name, func(t *testing.T) {
			s := prepare(t, "MILLRACE_INGEST_RATE=0")
			s.bin = bin
			s.start()
			s.serveClients(t, filepath.Join(before, "example"), filepath.Join(now, "example"))
		})
		t.Run("work of "+name, func(t *testing.T) {
			p := launchProgram(t, filepath.Join(now, "faults"), []string{"MILLRACE_BIN=" + bin}, nil, "-work", "1500", "-for", "40s",
				"-clients", filepath.Join(before, "work"), "-parts", filepath.Join(parts, "faults"), "-node", node)
			if status := p.wait(t, 11*time.Minute); status != 0 {
				t.Errorf("exit status %d:\n%s%s", status, p.out, p.log)
			}
			t.Logf("%s", p.out)
		})
	}
}
