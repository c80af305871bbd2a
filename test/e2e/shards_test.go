package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const shardsAPI = "/pipeline"

// command posts to shard tracking, tries again while Postgres is away, and
// decodes the answer.
func command[T any](s *server, path, body string) T {
	s.t.Helper()
	v, status := tried[T](s, path, body)
	if status != http.StatusOK {
		s.t.Fatalf("POST %s %s: %d %+v", path, body, status, v)
	}
	return v
}

// tried is command where a conflict may be the answer.
func tried[T any](s *server, path, body string) (v T, status int) {
	s.t.Helper()
	s.retry(s.t, "POST "+path, func() (busy bool) {
		var text []byte
		status, _, text = s.post(shardsAPI+path, "application/json", body)
		if status == http.StatusServiceUnavailable {
			return true
		}
		if status != http.StatusOK && status != http.StatusConflict {
			s.t.Fatalf("POST %s %s: %d %s", path, body, status, text)
		}
		if err := json.Unmarshal(text, &v); err != nil {
			s.t.Fatalf("POST %s: %s: %v", path, text, err)
		}
		return false
	})
	return v, status
}

type takenItems struct {
	Items []struct {
		Filename   string `json:"filename"`
		Shard      int    `json:"shard"`
		Generation int    `json:"generation"`
	} `json:"items"`
}

type moved struct {
	Status any // the item's; of a conflict, HTTP's number
	Errors []struct{ Code string }
}

// TestShards works files through all stages by HTTP, while Postgres is killed
// and then everything is: each item is done once per stage, events go on in
// between, and the summary is what was put in.
func TestShards(t *testing.T) {
	t.Parallel()
	const files, shards = 4, 3
	s := up(t)
	for f := range files {
		name := fmt.Sprintf("2025010100000%d", f)
		command[struct{}](s, "/files/register", fmt.Sprintf(`{"filename":%q,"shards":[0,1,2]}`, name))
		command[struct{}](s, "/stages/event-ingest/done", fmt.Sprintf(`{"filename":%q}`, name))
	}
	done := map[string]int{}
	work := func(stage string, until int) {
		t.Helper()
		for done[stage] < until {
			taken := command[takenItems](s, "/queues/"+stage+"/take", `{"worker":"e2e","limit":5,"lease_s":2}`)
			for _, it := range taken.Items {
				body := fmt.Sprintf(`{"filename":%q,"shard":%d,"generation":%d}`, it.Filename, it.Shard, it.Generation)
				m, status := tried[moved](s, "/stages/"+stage+"/done", body)
				switch {
				case status == http.StatusConflict: // its lease has ended while Postgres was away
					if len(m.Errors) != 1 || m.Errors[0].Code != "fenced" {
						t.Fatalf("%s: %+v", body, m)
					}
				case m.Status == "done":
					done[stage]++
				}
			}
		}
	}
	work("shard-splitter", files*shards)

	// A taken item is not lost with Postgres, nor with the server.
	held := command[takenItems](s, "/queues/shard-worker/take", `{"worker":"gone","limit":1,"lease_s":1}`)
	for len(held.Items) == 0 {
		held = command[takenItems](s, "/queues/shard-worker/take", `{"worker":"gone","limit":1,"lease_s":1}`)
	}
	killPostgres(t, s)
	event := fmt.Sprintf(`{"article_url":"https://example.com/a","source_name":"s","stage":"crawled",`+
		`"occurred_at":%q,"service_name":"e2e"}`, time.Now().UTC().Format(time.RFC3339))
	if status, _, text := s.post("/events", "application/json", event); status != http.StatusCreated {
		t.Errorf("an event while Postgres is away: %d %s", status, text)
	}
	work("shard-worker", files*shards/2)
	s.killParent()
	s.restart()
	work("shard-worker", files*shards)
	work("mysql-sender", files*shards)

	sum := get[struct {
		Total   int                       `json:"total"`
		ByStage map[string]map[string]int `json:"by_stage"`
		ByShard []map[string]int          `json:"by_shard"`
	}](s, shardsAPI+"/metrics/summary", "")
	if sum.Total != files*shards || len(sum.ByShard) != shards || sum.ByShard[2]["done"] != files {
		t.Errorf("%+v", sum)
	}
	for _, stage := range []string{"event_ingest", "shard_splitter", "shard_worker", "mysql_sender"} {
		if sum.ByStage[stage]["done"] != files*shards {
			t.Errorf("%s: %v, want %d done", stage, sum.ByStage[stage], files*shards)
		}
	}
	dones := 0
	for f := range files {
		h := get[struct {
			Transitions []struct{ Stage, Transition string } `json:"transitions"`
		}](s, fmt.Sprintf("%s/files/2025010100000%d/history", shardsAPI, f), "limit=1000")
		for _, v := range h.Transitions {
			if v.Transition == "done" && v.Stage != "event-ingest" {
				dones++
			}
		}
	}
	if dones != files*shards*3 {
		t.Errorf("%d times done, want %d", dones, files*shards*3)
	}
	s.stop()
}

// killPostgres kills the embedded server as the system does when memory ends.
func killPostgres(t *testing.T, s *server) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.data, "postgres", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || !slices.ContainsFunc(descendants(s.cmd.Process.Pid),
		func(p running) bool { return p.pid == pid }) {
		t.Fatalf("%q is no process of the server: %v", first, err)
	}
	s.outage.Store(true) // until the server is started again
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
