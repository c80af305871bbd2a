package console

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const summary = `{"by_stage":{"shard_worker":{"failed":7}},
	"queues":{"shard_worker":{"dead":2,"concurrency":5,"max_attempts":0}}}`

func queueServer(t *testing.T) *fake {
	return serve(t, map[string]any{
		"view queues": `{"seq":1,"queues":{"queues":[
			{"name":"mail","ready":4,"delayed":1,"running":2,"done":9,"failed":3,"dead":1,"paused":true,
				"oldest_since":null},
			{"name":"shard-worker","ready":0,"delayed":0,"running":0,"done":0,"failed":0,"dead":0,"paused":false,
				"oldest_since":null}]}}`,
		"GET /queues/mail": `{"name":"mail","max_attempts":20,"concurrency":0,"concurrency_per_group":3,
			"rate_per_key":{"count":5,"per_s":60},
			"retention_s":3600,"max_items":1000,"states":{"new":1,"scheduled":2,"started":3,"failed":2,"dead":1}}`,
		"/queues/mail/items":                              `{"items":[{"id":1},{"id":2}]}`,
		"/pipeline/metrics/summary":                       summary,
		"POST /queues/mail/pause":                         `{"name":"mail","paused":true}`,
		"POST /queues/mail/resume":                        `{"name":"mail","paused":false}`,
		"POST /pipeline/queues/shard-worker/pause":        `{"stage":"shard-worker","paused":true}`,
		"POST /queues/mail/limits":                        `{"max_attempts":3,"concurrency":0,"retention_s":60}`,
		"POST /pipeline/queues/shard-worker/limits":       `{"concurrency":9}`,
		"POST /queues/mail/retry-failed":                  `{"count":2}`,
		"POST /pipeline/stages/shard-worker/retry-failed": `{"stage":"shard-worker","retried":5}`,
		"POST /queues/mail/cancel":                        `{"count":6}`,
	})
}

// TestQueues: what each command asks of a server, and what it prints.
func TestQueues(t *testing.T) {
	for _, c := range []struct {
		line, change string
		lines        []string
	}{
		{"queues", "", []string{"mail 4 1 2 9 3 1 paused", "shard-worker 0 0 0 0 0 0"}},
		{"queues list --json", "", []string{`{"name":"mail","ready":4,"delayed":1,"running":2,"done":9,` +
			`"failed":3,"dead":1,"paused":true,"oldest_since":null}`}},
		{"queues pause mail", "POST /queues/mail/pause {}", []string{"mail is paused: what is started goes on"}},
		{"queues resume mail", "POST /queues/mail/resume {}", []string{"mail is handed out again"}},
		{"queues resume mail --json", "POST /queues/mail/resume {}", []string{`"paused": false`}},
		{
			"queues pause shard-worker", "POST /pipeline/queues/shard-worker/pause {}",
			[]string{"shard-worker is paused: what is started goes on"},
		},
		{"queues limits mail", "", []string{
			"max attempts 20", "concurrency any number", "concurrency per group 3", "rate per key 5 in 1m0s",
			"retention 1h0m0s", "max items 1000",
		}},
		{
			"queues limits mail --max-attempts=3 --concurrency=0 --rate-per-key=0 --retention=1m",
			`POST /queues/mail/limits {"max_attempts":3,"concurrency":0,` +
				`"rate_per_key":{"count":0,"per_s":0},"retention_s":60}`,
			[]string{"max attempts 3", "concurrency any number", "retention 1m0s"},
		},
		{"queues limits shard-worker", "", []string{"max attempts any number", "concurrency 5"}},
		{
			"queues limits shard-worker --concurrency=9", `POST /pipeline/queues/shard-worker/limits {"concurrency":9}`,
			[]string{"concurrency 9"},
		},
		{
			"queues retry-failed mail --yes",
			`POST /queues/mail/retry-failed {"group":"","limit":10000,"state":"failed"}`,
			[]string{"2 items were retried"},
		},
		{
			"queues retry-failed mail --yes --state=dead --group=shop --limit=2",
			`POST /queues/mail/retry-failed {"group":"shop","limit":2,"state":"dead"}`,
			[]string{"2 items were retried; there may be more (--limit)"},
		},
		{
			"queues retry-failed mail --yes --state=cancelled", "",
			[]string{"nothing to do: mail has no cancelled items (--state names others)"},
		},
		{
			"queues retry-failed shard-worker --yes",
			`POST /pipeline/stages/shard-worker/retry-failed {"include_dead":false,"limit":10000}`,
			[]string{"5 items were retried"},
		},
		{
			"queues cancel mail --group=shop --yes", `POST /queues/mail/cancel {"group":"shop","limit":10000}`,
			[]string{"6 items were cancelled"},
		},
	} {
		f := queueServer(t)
		out, err := f.run(t, c.line)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
		}
		if changes := strings.Join(f.changes(), "\n"); changes != c.change {
			t.Errorf("%s: sent %q, want %q", c.line, changes, c.change)
		}
		mustHave(t, out, c.lines...)
	}
}

// TestUnconfirmed: what changes many things is not done unless somebody says so,
// and the number is named.
func TestUnconfirmed(t *testing.T) {
	for line, want := range map[string]string{
		"queues retry-failed mail":                      "retry 2 failed items of mail",
		"queues retry-failed mail --state=dead":         "retry 1 dead item of mail",
		"queues retry-failed mail --limit=1":            "retry 1 failed item of mail",
		"queues retry-failed mail --group=shop":         "retry 2 failed items of mail",
		"queues retry-failed shard-worker":              "retry 5 failed items of shard-worker",
		"queues retry-failed shard-worker --state=dead": "retry 7 failed or dead items of shard-worker",
		"queues cancel mail --group=shop":               "cancel 6 items of the group shop in mail",
	} {
		f := queueServer(t)
		_, err := f.run(t, line)
		usage := new(UsageError)
		want = "nobody can be asked whether to " + want + ": --yes does it without asking"
		if !errors.As(err, &usage) || usage.Text != want {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
		if changes := f.changes(); len(changes) > 0 {
			t.Errorf("%s: sent %s", line, changes)
		}
	}
}

func fileServer(t *testing.T) *fake {
	return serve(t, map[string]any{
		"GET /pipeline/files": `{"files":[{"filename":"20250101000000","shards":3,"started":1,"done":0,"failed":2,
			"priority":5,"updated_at":"2026-02-10T00:00:00Z","cancelled_at":"2026-02-10T00:00:00Z"}]}`,
		"GET /pipeline/files/20250101000000": `{"filename":"20250101000000","shards":[
			{"shard":0,"event_ingest_status":"done","shard_splitter_status":"done",
				"shard_worker_status":"failed","mysql_sender_status":"new",
				"updated_at":"2026-02-10T00:00:00Z",
				"stages":{"shard_worker":{"attempts":20,"worker":"host-7","error":"broken\u001b[2J"}}},
			{"shard":1,"event_ingest_status":"done","shard_splitter_status":"failed",
				"shard_worker_status":"new","mysql_sender_status":"new",
				"updated_at":"2026-02-10T00:00:00Z"},
			{"shard":2,"event_ingest_status":"done","shard_splitter_status":"done",
				"shard_worker_status":"done","mysql_sender_status":"done",
				"updated_at":"2026-02-10T00:00:00Z"}]}`,
		"GET /pipeline/files/fine":                          `{"filename":"fine","shards":[]}`,
		"POST /pipeline/files/20250101000000/cancel":        `{"filename":"20250101000000","failed":2}`,
		"POST /pipeline/stages/shard-splitter/retry-failed": `{"retried":1}`,
		"POST /pipeline/stages/shard-worker/retry-failed":   `{"retried":1}`,
	})
}

// TestFiles: what each command asks of a server, and what it prints.
func TestFiles(t *testing.T) {
	retry := func(stage string) string {
		const body = `{"filename":"20250101000000","include_dead":true}`
		return "POST /pipeline/stages/" + stage + "/retry-failed " + body
	}
	for _, c := range []struct {
		line    string
		changes []string
		lines   []string
	}{
		{"files", nil, []string{"20250101000000 3 1 0 2 5 2026-02-10T00:00:00Z cancelled"}},
		{"files list --search=2025 --status=failed --stage=shard-worker", nil, []string{
			"20250101000000 3 1 0 2 5 2026-02-10T00:00:00Z cancelled",
		}},
		{"files show 20250101000000", nil, []string{
			"20250101000000: 3 shards", "0 done done failed new 2026-02-10T00:00:00Z",
			`0 shard-worker 20 host-7 broken\x1b[2J`, "1 shard-splitter 0",
		}},
		{"files cancel 20250101000000 --yes", []string{"POST /pipeline/files/20250101000000/cancel {}"}, []string{
			"20250101000000 is cancelled: 2 items were taken out",
		}},
		{"files retry 20250101000000 --yes", []string{retry("shard-splitter"), retry("shard-worker")}, []string{
			"2 shards were retried",
		}},
		{"files retry fine --yes", nil, []string{"nothing to do: no shard of fine has failed"}},
	} {
		f := fileServer(t)
		out, err := f.run(t, c.line)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
		}
		if changes := f.changes(); !slices.Equal(changes, c.changes) {
			t.Errorf("%s: sent %q, want %q", c.line, changes, c.changes)
		}
		mustHave(t, out, c.lines...)
	}
	for line, want := range map[string]string{
		"files cancel 20250101000000": "cancel 20250101000000, of which 2 of 3 shards are not done",
		"files retry 20250101000000":  "retry 2 failed shards of 20250101000000",
	} {
		f := fileServer(t)
		_, err := f.run(t, line)
		if err == nil || !strings.Contains(err.Error(), want+": --yes") || len(f.changes()) > 0 {
			t.Errorf("%s: %v, sent %s", line, err, f.changes())
		}
	}
}
