package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// well are the answers of a server that works.
func well() map[string]any {
	return map[string]any{
		"/health": `{"status":"ok","version":"v1.2.3"}`,
		"/ready": `{"status":"ready","checks":[
			{"name":"nats","status":"up","needed":true,"since":"2026-02-10T00:00:00Z","behind":3},
			{"name":"gaps","status":"up","needed":false,"since":"2026-02-10T00:00:00Z",
				"warning":"few are classified"}]}`,
		"view lag": `{"seq":1,"lag":{"last_seq":120,"groups":[
			{"group":0,"folded_seq":117,"events_behind":3,"seconds_behind":1.5}]}}`,
		"view queues": `{"seq":1,"queues":{"queues":[
			{"name":"mail","ready":4,"delayed":1,"running":2,"done":9,"failed":3,"dead":1,"paused":true,
				"oldest_since":"2026-02-10T00:00:00Z"},
			{"name":"crawl","ready":600,"delayed":0,"running":0,"done":0,"failed":0,"dead":0,"paused":false,
				"oldest_since":"2026-02-10T00:00:00Z"}]}}`,
		"view dlq": `{"seq":1,"dlq":{"count":1700,"newest":[]}}`,
		"/dlq": `{"letters":[{"code":"stage_unknown","field":"stage"},{"code":"json","field":""},
			{"code":"stage_unknown","field":"stage"}],
			"next_cursor":9}`,
		"/processes": `{"processes":[{"id":"a","host":"node-1","roles":["query"],"version":"v1.2.3","answers":true,"ready":true,
			"started_at":"2026-02-10T00:00:00Z","seen_at":"2026-02-10T00:00:00Z"}]}`,
		"/funnel": func(w http.ResponseWriter, r *http.Request) {
			from, count := "2026-02-10T11:00:00Z", 900
			if r.URL.Query().Get("from") == "2026-02-11T10:59:00Z" {
				from, count = "2026-02-11T10:59:00Z", 150
			}
			const answer = `{"from":%q,"generated_at":"2026-02-11T11:00:00Z","stages":[{"name":"crawled","count":%d}]}`
			fmt.Fprintf(w, answer, from, count)
		},
	}
}

func TestStatus(t *testing.T) {
	f := serve(t, well())
	out, err := f.run(t, "status")
	if err != nil {
		t.Error(err)
	}
	mustHave(t, out,
		"Millrace v1.2.3 at "+f.URL+": it works, and 4 things need attention",
		"- gaps: few are classified",
		"- queue mail: 3 failed items, 1 of them dead or cancelled",
		"- 1700 dead letters (millrace dlq list)",
		"0 117 3 1.5",
		"crawled 2.5 150 900",
		"stage_unknown stage 2", "json 1",
		"Dead letters: 1700, by reason the newest 3",
	)
	if !strings.Contains(out, "3 messages behind") || !strings.Contains(out, "paused") ||
		!strings.Contains(out, "  - queue crawl: no worker has taken the oldest of 600 runs for ") {
		t.Error(out)
	}
	out, err = f.run(t, "status --json")
	var st Status
	if json.Unmarshal([]byte(out), &st) != nil || err != nil || !st.Well || len(st.Problems) != 0 ||
		len(st.Attention) != 4 || len(st.Missing) != 0 || st.Stages[0] != (StageRate{"crawled", 2.5, 150, 900}) ||
		st.Queues[0].Running != 2 || st.Letters.Count != 1700 {
		t.Errorf("%v: %s", err, out)
	}
}

// split are the processes of an installation with split roles, one of which is silent.
const split = `{"processes":[
	{"id":"a","host":"node-1","roles":["query"],"version":"v1.2.3","answers":true,"ready":false,
		"alerts":[{"name":"MillraceOutboxWaiting","detail":"millrace_outbox_oldest_age_seconds{stream=\"SOURCES\"} 128"}],"gauges":[
		{"name":"millrace_projector_behind","labels":{"group":"3"},"value":7},
		{"name":"millrace_projector_behind_seconds","labels":{"group":"3"},"value":31},
		{"name":"millrace_queue_ready","labels":{"queue":"mail"},"value":5},
		{"name":"millrace_queue_dead","labels":{"queue":"mail"},"value":2},
		{"name":"millrace_queue_oldest_ready_age_seconds","labels":{"queue":"mail"},"value":60}]},
	{"id":"b","host":"node-2","roles":["ingest","scheduler"],"answers":true,"ready":true,
		"damage":["stream SHARDS has lost 2 messages"],"off":[{"system":"uploads","part":"runner","reason":"no such table"}],
		"alerts":[{"name":"MillraceOutboxWaiting","detail":"millrace_outbox_oldest_age_seconds{stream=\"SOURCES\"} 130"}],"gauges":[
		{"name":"millrace_projector_behind","labels":{},"value":1},
		{"name":"millrace_dlq_messages","value":3},
		{"name":"millrace_dlq_letters","labels":{"reason":"json"},"value":3}]},
	{"id":"c","host":"node-3","roles":["projector"],"answers":false,"seen_at":"2026-02-10T00:00:00Z"}]}`

// TestStatusSplit: what the address does not serve comes from the processes that have it, and a
// process that is silent or not ready is a problem.
func TestStatusSplit(t *testing.T) {
	answers := well()
	maps.Copy(answers, map[string]any{
		"/processes": split, "/dlq": refuse(404, "", "", ""), "view queues": refuse(400, "view", "must be lag", ""),
		"view lag": refuse(404, "", "", ""),
	})
	out, err := serve(t, answers).run(t, "status")
	if err == nil || !strings.Contains(err.Error(), "projector on node-3 does not answer") {
		t.Error(err)
	}
	mustHave(t, out,
		"! slot group 3 is 7 events, 31 seconds, behind the stream", "! query on node-1 is not ready",
		`- alert MillraceOutboxWaiting: millrace_outbox_oldest_age_seconds{stream="SOURCES"} 128, says query on node-1, `+
			"ingest,scheduler on node-2", "! stream SHARDS has lost 2 messages", "! uploads is off: its part runner fails: no such table",
		"mail 5 0 0 0 2 2 1m0s", "Dead letters: 3", "json 3", "- 3 dead letters (millrace dlq list)",
	)
	if n := strings.Count(out, "MillraceOutboxWaiting"); n != 1 {
		t.Errorf("the alert is told %d times in:\n%s", n, out)
	}
	for _, want := range []string{"ingest,scheduler node-2", "projector node-3", "query node-1 v1.2.3"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// TestStatusNotWell: what is not well fails; what a server does not have, or may
// not tell, does not.
func TestStatusNotWell(t *testing.T) {
	for name, c := range map[string]struct {
		answers map[string]any
		told    string
		fails   string
	}{
		"a stream has lost messages": {
			map[string]any{"/health": `{"status":"damaged","version":"v1.2.3","damage":["stream EVENTS has lost 3 messages"]}`},
			"! stream EVENTS has lost 3 messages", "not well: stream EVENTS has lost 3 messages",
		},
		"a part of a system is off": {
			map[string]any{"/health": `{"status":"ok","version":"v1.2.3","off":[
				{"system":"jobs","part":"events","reason":"no such table","since":"2026-02-10T00:00:00Z"},
				{"system":"shards","reason":"MILLRACE_POSTGRES_DSN is not set"},
				{"system":"queues","reason":"MILLRACE_POSTGRES_DSN is not set"}]}`},
			"- off: shards, queues: MILLRACE_POSTGRES_DSN is not set", "not well: jobs is off: its part events fails: no such table",
		},
		"a part is down": {map[string]any{"/ready": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":"not ready","checks":[
				{"name":"nats","status":"down","needed":true,"error":"no connection"}]}`))
		}}, "! nats is down: no connection", "not well: nats is down: no connection"},
		"views are late": {
			map[string]any{"view lag": `{"lag":{"groups":[{"group":2,"events_behind":1,"seconds_behind":30}]}}`},
			"! slot group 2 is 1 event, 30 seconds, behind the stream", "not well: slot group 2",
		},
		"a view fails": {
			map[string]any{
				"view queues": `{"error":{"title":"Service Unavailable","status":503,"detail":"Postgres is away"}}`,
			},
			"not known: Service Unavailable: Postgres is away",
			"not well: queues: Service Unavailable: Postgres is away",
		},
		"no queries here": {
			map[string]any{"/funnel": refuse(404, "", "", ""), "view queues": refuse(400, "view", "must be lag", "")},
			"not known: not served at this address", "",
		},
		"no right": {
			map[string]any{"/dlq": refuse(403, "", "", "the scope admin is needed")},
			`not known: Forbidden: the scope admin is needed (--token; "millrace token" mints one)`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			answers := well()
			maps.Copy(answers, c.answers)
			out, err := serve(t, answers).run(t, "status")
			if failed := err != nil; failed != (c.fails != "") || failed && !strings.HasPrefix(err.Error(), c.fails) {
				t.Errorf("%v, want %q", err, c.fails)
			}
			mustHave(t, out, c.told)
		})
	}
}

// TestStatusOfStrangers: without a token that the server knows there is no
// status that looks well.
func TestStatusOfStrangers(t *testing.T) {
	answers := well()
	answers["view lag"] = refuse(401, "", "", "the token has expired")
	out, err := serve(t, answers).run(t, "status")
	if err == nil || !strings.Contains(err.Error(), "the token has expired") || out != "" {
		t.Errorf("%v: %s", err, out)
	}
}
