package shards

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

func serve(t *testing.T, cfg auth.Config) *trackingtest.Site {
	t.Helper()
	s := trackingtest.Start(t, &engine)
	s.Serve(auth.New(cfg), New(s.Store, s.Hands))
	return s
}

// TestNoDatabaseYet: a server that has no database yet, as one that starts for
// the first time, is away, and nobody's mistake.
func TestNoDatabaseYet(t *testing.T) {
	pool := engine.Pool(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.Database = "absent" })
	s := trackingtest.On(t, pool)
	hands, err := handout.New(natstest.Start(t, stream.Config{}).Connect(), s.Store.Queues(), stream.WorkConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(auth.New(auth.Config{}), New(s.Store, hands))
	if status, text := s.Post("/files/register", `{"filename":"20250101000000","shards":[0]}`); status != 503 {
		t.Errorf("%d %s", status, text)
	}
}

const file = "20250101000000"

// TestContract goes the way of the specification, and holds each answer to the
// letter, with each repeat.
func TestContract(t *testing.T) {
	s := serve(t, auth.Config{})
	for _, step := range []struct {
		path, body string
		status     int
		want       string
	}{
		{
			"/files/register", `{"filename":"20250101000000","shards":[0,1]}`, 200,
			`{"filename":"20250101000000","shards":[0,1],"created":true}`,
		},
		{
			"/files/register", `{"filename":"20250101000000","shards":[0,1]}`, 200,
			`{"filename":"20250101000000","shards":[0,1],"created":false}`,
		},
		{
			"/files/register", `{"filename":"20250101000000","shards":[1,1,2]}`, 200,
			`{"filename":"20250101000000","shards":[1,2],"created":true}`,
		},
		{
			"/files/register", `{"filename":"20250101000000.event-ingest.txt","shards":[2,1,2]}`, 200,
			`{"filename":"20250101000000","shards":[2,1],"created":false}`,
		},
		{
			"/stages/event-ingest/done", `{"filename":"20250101000000"}`, 200,
			`{"filename":"20250101000000","updated_rows":3}`,
		},
		{
			"/stages/event-ingest/done", `{"filename":"20250101000000"}`, 200,
			`{"filename":"20250101000000","updated_rows":0}`,
		},

		{"/stages/shard-splitter/start", itemBody(0), 200, moved(0, "shard-splitter", "started")},
		{"/stages/shard-splitter/start", itemBody(0), 409, "started"}, // perhaps by another
		{"/stages/shard-splitter/retry", itemBody(0), 409, "started"},
		{"/stages/shard-splitter/done", itemBody(0), 200, moved(0, "shard-splitter", "done")},
		{"/stages/shard-splitter/done", itemBody(0), 200, moved(0, "shard-splitter", "done")},
		{"/stages/shard-splitter/start", itemBody(0), 409, "done"},
		{"/stages/shard-splitter/fail", itemBody(0), 409, "done"},
		{"/stages/shard-splitter/retry", itemBody(0), 409, "done"},

		{"/stages/shard-worker/done", itemBody(0), 409, "new"},
		{"/stages/shard-worker/retry", itemBody(0), 409, "new"},
		{"/stages/shard-worker/start", itemBody(0), 200, moved(0, "shard-worker", "started")},
		{"/stages/shard-worker/fail", itemBody(0), 200, moved(0, "shard-worker", "failed")},
		{"/stages/shard-worker/fail", itemBody(0), 200, moved(0, "shard-worker", "failed")},
		{"/stages/shard-worker/start", itemBody(0), 409, "failed"},
		{"/stages/shard-worker/done", itemBody(0), 409, "failed"},
		{"/stages/shard-worker/retry", itemBody(0), 200, moved(0, "shard-worker", "new")},
		{"/stages/shard-worker/retry", itemBody(0), 200, moved(0, "shard-worker", "new")},

		{"/stages/mysql-sender/fail", itemBody(1), 200, moved(1, "mysql-sender", "failed")}, // from new
		{"/stages/mysql-sender/retry", itemBody(1), 200, moved(1, "mysql-sender", "new")},

		{
			"/stages/shard-splitter/start", `{"filename":"20250101000000","shard":1,"worker":"a","lease_s":60}`, 200,
			moved(1, "shard-splitter", "started"),
		},
		{"/stages/shard-splitter/start", `{"filename":"20250101000000","shard":1,"worker":"b"}`, 409, "started"},
		{"/stages/shard-splitter/done", `{"filename":"20250101000000","shard":1,"worker":"b"}`, 409, "started"},
		{"/stages/shard-splitter/done", `{"filename":"20250101000000","shard":1,"generation":1}`, 409, "started"},
		{
			"/stages/shard-splitter/extend", `{"filename":"20250101000000","shard":1,"worker":"a","lease_s":60}`, 200,
			moved(1, "shard-splitter", "started"),
		},
		{
			"/stages/shard-splitter/extend", `{"filename":"20250101000000","shard":1,"worker":"b","lease_s":60}`, 409,
			"started",
		},
		{"/stages/shard-splitter/again", `{"filename":"20250101000000","shard":1,"generation":2,"error":"try ` +
			`later","delay_s":60}`, 200, moved(1, "shard-splitter", "new")},
		{
			"/stages/shard-splitter/extend", `{"filename":"20250101000000","shard":1,"worker":"a","lease_s":60}`, 409,
			"new",
		},
		{
			"/stages/shard-splitter/start", `{"filename":"20250101000000","shard":1,"worker":"b"}`, 200,
			moved(1, "shard-splitter", "started"),
		},
		{
			"/stages/shard-splitter/release", `{"filename":"20250101000000","shard":1,"worker":"b"}`, 200,
			moved(1, "shard-splitter", "new"),
		},
	} {
		status, text := s.Post(step.path, step.body)
		want := step.want
		if step.status == 409 {
			want = `"current_status":"` + want + `"`
		}
		if status != step.status || (text != want && (status != 409 || !strings.Contains(text, want))) {
			t.Errorf("POST %s %s:\n%d %s, want\n%d %s", step.path, step.body, status, text, step.status, want)
		}
	}
}

func itemBody(shard int) string { return fmt.Sprintf(`{"filename":%q,"shard":%d}`, file, shard) }

func moved(shard int, stage, status string) string {
	return fmt.Sprintf(`{"filename":%q,"shard":%d,"stage":%q,"status":%q}`, file, shard, stage, status)
}

// TestBadInput holds that each mistake is answered with the field and the rule.
func TestBadInput(t *testing.T) {
	s := serve(t, auth.Config{})
	s.Post("/files/register", `{"filename":"a","shards":[0]}`)
	many := "0"
	for n := range shard.MaxShards {
		many += fmt.Sprintf(",%d,%d", n+1, n)
	}
	for _, c := range []struct {
		path, body   string
		status       int
		field, inner string
	}{
		{"/stages/nope/start", `{"filename":"a","shard":0}`, 400, "stage", "must be shard-splitter"},
		{"/stages/event-ingest/start", `{"filename":"a","shard":0}`, 400, "stage", "must be shard-splitter"},
		{"/stages/shard-worker/jump", `{"filename":"a","shard":0}`, 400, "transition", "must be start"},
		{"/stages/shard-worker/start", `{"filename":"a","shard":-1}`, 400, "shard", "from 0"},
		{"/stages/shard-worker/start", `{"filename":"a","shard":2147483648}`, 400, "shard", "from 0"},
		{"/stages/shard-worker/start", `{"filename":"a","shard":null}`, 400, "shard", "integer"},
		{"/stages/shard-worker/start", `{"filename":"a"}`, 400, "shard", "is required"},
		{"/stages/shard-worker/start", `{"filename":"a","shard":0.5}`, 400, "shard", "integer"},
		{"/stages/shard-worker/start", `{"filename":"a","shard":"0"}`, 400, "shard", "integer"},
		{"/stages/shard-worker/start", `{"shard":0}`, 400, "filename", "is required"},
		{"/stages/shard-worker/start", `{"filename":"a/b","shard":0}`, 400, "filename", "slashes"},
		{"/stages/shard-worker/start", `{"filename":"a\\b","shard":0}`, 400, "filename", "slashes"},
		{"/stages/shard-worker/start", `{"filename":"a\u0000","shard":0}`, 400, "filename", "control characters"},
		{"/stages/shard-worker/start", `{"filename":"..","shard":0}`, 400, "filename", "must not be"},
		{"/stages/shard-worker/start", `{"filename":"a","shard":0,"lease_s":0}`, 400, "lease_s", "from 1 to 86400"},
		{
			"/stages/shard-worker/start", `{"filename":"a","shard":0,"lease_s":31536000}`, 400, "lease_s",
			"from 1 to 86400",
		},
		{"/stages/shard-worker/retry", `{"filename":"a","shard":0,"delay_s":-1}`, 400, "delay_s", "from 0"},
		{
			"/stages/shard-worker/start", `{"filename":"a","shard":0,"worker":"a\nb"}`, 400, "worker",
			"control characters",
		},
		{"/stages/shard-worker/start", `{"filename":"a","shard":0,"worker":"nats"}`, 400, "worker", "must not be nats"},
		{"/stages/shard-worker/extend", `{"filename":"a","shard":0}`, 400, "lease_s", "is required"},
		{"/stages/shard-worker/start", `{"filename":"a","shard":9}`, 404, "shard", "registered"},
		{"/stages/shard-worker/extend", `{"filename":"a","shard":9,"lease_s":9}`, 404, "shard", "registered"},
		{"/stages/shard-worker/start", `{"filename":"b","shard":0}`, 404, "shard", "registered"},
		{"/stages/shard-worker/done", `{"filename":"a","shard":0}`, 409, "status", "must be started, and is new"},
		{"/stages/shard-worker/retry", `{"filename":"a","shard":0}`, 409, "status", "must be failed, and is new"},
		{"/stages/event-ingest/done", `{"filename":"b"}`, 404, "filename", "registered"},
		{"/stages/event-ingest/done", `{"filename":""}`, 400, "filename", "is required"},

		{"/files/register", `{"filename":"a","shards":[]}`, 400, "shards", "at least one"},
		{"/files/register", `{"filename":"a","shards":null}`, 400, "shards", "array"},
		{"/files/register", `{"filename":"a"}`, 400, "shards", "is required"},
		{"/files/register", `{"filename":"a","shards":[0,null]}`, 400, "shards[1]", "integer"},
		{"/files/register", `{"filename":"a","shards":[0,-1]}`, 400, "shards[1]", "from 0"},
		{"/files/register", `{"filename":"a","shards":[` + many + `]}`, 400, "shards", "at most 4096"},
		{"/files/register", `{"filename":"` + strings.Repeat("a", 256) + `","shards":[0]}`, 400, "filename", "255"},
		{"/files/register", `{"filename":"a","shards":[0],"priority":10}`, 400, "priority", "9"},
		{"/files/register", `{"filename":"a","shards":[0]`, 400, "", "unexpected"},

		{"/queues/nope/take", `{"worker":"w"}`, 400, "stage", "must be shard-splitter"},
		{"/queues/shard-worker/take", `{}`, 400, "worker", "is required"},
		{"/queues/shard-worker/take", `{"worker":""}`, 400, "worker", "is required"},
		{"/queues/shard-worker/take", `{"worker":"nats"}`, 400, "worker", "must not be nats"},
		{"/queues/shard-worker/take", `{"worker":"w","lease_s":0}`, 400, "lease_s", "from 1 to 86400"},
		{"/queues/shard-worker/take", `{"worker":"w","lease_s":31536000}`, 400, "lease_s", "from 1 to 86400"},
		{"/queues/shard-worker/take", `{"worker":"w","limit":0}`, 400, "limit", "from 1 to 1000"},
		{"/queues/shard-worker/take", `{"worker":"w","limit":1001}`, 400, "limit", "from 1 to 1000"},

		{"/stages/shard-worker/start/bulk", `{"items":[]}`, 400, "items", "1 to 5000"},
		{
			"/stages/shard-worker/start/bulk", `{"items":[{"filename":"a","shard":0},{"filename":"a","shard":-1}]}`,
			400,
			"items[1].shard", "from 0",
		},

		{"/queues/nope/pause", `{}`, 400, "stage", "must be shard-splitter"},
		{"/queues/shard-splitter/pause", `{"file":"a"}`, 400, "file", "is no field here"},
		{"/queues/shard-worker/limits", `{"concurrency":-1}`, 400, "concurrency", "0"},
		{"/files/b/cancel", `{}`, 404, "filename", "registered"},
		{"/files/b%2Fc/cancel", `{}`, 400, "filename", "slashes"},
		{"/files/a/priority", `{"priority":10}`, 400, "priority", "9"},
		{"/files/b/priority", `{"priority":1}`, 404, "filename", "registered"},
		{"/files/purge", `{"older_than_s":5}`, 400, "older_than_s", "from 60"},
		{"/stages/shard-worker/retry-failed", `{"limit":0}`, 400, "limit", "1"},
		{"/stages/shard-worker/retry-failed", `{"prefix":"a/"}`, 400, "prefix", "slashes"},
	} {
		var p httpapi.Problem
		status, text := s.Post(c.path, c.body)
		s.Into(&p, c.status, status, text)
		if len(p.Errors) != 1 || p.Errors[0].Field != c.field || !strings.Contains(p.Errors[0].Rule, c.inner) {
			t.Errorf("POST %s %.80s: %s; want the field %q and the rule %q", c.path, c.body, text, c.field, c.inner)
		}
	}
	if status, text := s.Post("/files/register", ""); status != 415 {
		t.Errorf("without a type: %d %s", status, text)
	}
}

// TestTake takes over HTTP, and gives back what has expired.
func TestTake(t *testing.T) {
	s := serve(t, auth.Config{})
	s.Post("/files/register", `{"filename":"a","shards":[0,1,2],"priority":3}`)
	s.Post("/stages/event-ingest/done", `{"filename":"a"}`)
	take := func(limit int) (out Taken) {
		t.Helper()
		s.InStep()
		status, text := s.Post("/queues/shard-splitter/take",
			fmt.Sprintf(`{"worker":"w","limit":%d,"lease_s":60}`, limit))
		s.Into(&out, 200, status, text)
		return out
	}
	first, second, none := take(2), take(2), take(2)
	if len(first.Items) != 2 || len(second.Items) != 1 || none.Items == nil || len(none.Items) != 0 ||
		first.Stage != "shard-splitter" || first.LeaseS != 60 {
		t.Fatalf("%+v, %+v, %+v", first, second, none)
	}
	if it := first.Items[0]; it.Filename != "a" || it.Shard != 0 || it.Attempt != 1 || it.Generation != 2 ||
		time.Since(it.CreatedAt) > time.Hour {
		t.Errorf("%+v", it)
	}
	if _, err := s.Store.Pool().Exec(t.Context(),
		"UPDATE millrace.claim SET lease_until = now() WHERE lease_until > now() + interval '50 seconds'"); err != nil {
		t.Fatal(err)
	}
	if err := s.Store.Queues().Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := take(5); len(again.Items) != 3 || again.Items[0].Attempt != 2 || again.Items[0].Generation != 4 {
		t.Errorf("after the leases ended: %+v", again)
	}
	var bulk Bulk
	status, text := s.Post("/stages/shard-splitter/done/bulk", `{"worker":"w","items":[{"filename":"a","shard":0,`+
		`"generation":2},{"filename":"a","shard":1,"generation":4},{"filename":"a","shard":1},{"filename":"a",`+
		`"shard":7}]}`)
	s.Into(&bulk, 200, status, text)
	if bulk.Changed != 1 || bulk.Repeated != 1 || bulk.Refused != 2 || bulk.Results[0].Outcome != "fenced" ||
		bulk.Results[0].Status != "started" ||
		bulk.Results[1].Status != "done" || bulk.Results[3].Outcome != "not_found" || bulk.Results[3].Shard != 7 {
		t.Errorf("%+v", bulk)
	}
}

// TestPulled: what was pulled over NATS is finished over HTTP, at once, with the generation of
// its message.
func TestPulled(t *testing.T) {
	s := serve(t, auth.Config{})
	const items = 30
	shards := make([]string, items)
	for i := range shards {
		shards[i] = strconv.Itoa(i)
	}
	s.Post("/files/register", `{"filename":"a","shards":[`+strings.Join(shards, ",")+`]}`)
	s.Post("/stages/event-ingest/done", `{"filename":"a"}`)
	for i := range items {
		var it struct{ Shard, Generation int }
		if err := json.Unmarshal(s.Pull("shard-splitter"), &it); err != nil {
			t.Fatal(err)
		}
		move := "done"
		if i%3 == 0 {
			move = "fail"
		}
		body := fmt.Sprintf(`{"filename":"a","shard":%d,"generation":%d}`, it.Shard, it.Generation)
		for range 2 { // the second time it was said before
			if status, text := s.Post("/stages/shard-splitter/"+move, body); status != 200 {
				t.Fatalf("%s of item %d: %d %s", move, i, status, text)
			}
		}
	}
	never := `{"filename":"a","shard":0,"generation":1}`
	if status, text := s.Post("/stages/shard-worker/done", never); status != 409 {
		t.Errorf("done of an item that nobody has pulled: %d %s", status, text)
	}
}

// TestAdmin does what operators do.
func TestAdmin(t *testing.T) {
	s := serve(t, auth.Config{})
	s.Post("/files/register", `{"filename":"a","shards":[0,1]}`)
	s.Post("/stages/event-ingest/done", `{"filename":"a"}`)
	for _, c := range []struct{ path, body, want string }{
		{"/queues/shard-splitter/pause", `{}`, `{"stage":"shard-splitter","paused":true,"concurrency":0,` +
			`"max_attempts":20}`},
		{"/queues/shard-splitter/take", `{"worker":"w"}`, `{"stage":"shard-splitter","lease_s":300,"items":[]}`},
		{"/queues/shard-splitter/resume", ``, `{"stage":"shard-splitter","paused":false,"concurrency":0,` +
			`"max_attempts":20}`},
		{
			"/queues/shard-splitter/limits", `{"concurrency":1,"max_attempts":2}`,
			`{"stage":"shard-splitter","paused":false,"concurrency":1,"max_attempts":2}`,
		},
		{"/files/a/priority", `{"priority":4}`, `{"filename":"a","priority":4}`},
		{
			"/stages/shard-splitter/fail", `{"filename":"a","shard":1,"error":"boom"}`,
			`{"filename":"a","shard":1,"stage":"shard-splitter","status":"failed"}`,
		},
		{"/stages/shard-splitter/retry-failed", `{"error":"other"}`, `{"stage":"shard-splitter","retried":0}`},
		{
			"/stages/shard-splitter/retry-failed", `{"error":"boo","prefix":"a","delay_s":60}`,
			`{"stage":"shard-splitter","retried":1}`,
		},
		{"/files/a/cancel", `{}`, `{"filename":"a","failed":2}`},
		{"/stages/shard-splitter/retry-failed", `{}`, `{"stage":"shard-splitter","retried":0}`},
		{"/files/purge", `{"older_than_s":60}`, `{"files":0}`},
	} {
		if status, text := s.Post(c.path, c.body); status != 200 || text != c.want {
			t.Errorf("POST %s %s: %d %s, want %s", c.path, c.body, status, text, c.want)
		}
	}
	var p httpapi.Problem
	status, text := s.Post("/files/register", `{"filename":"a","shards":[5]}`)
	s.Into(&p, 409, status, text)
}

// TestScopes holds who may do what.
func TestScopes(t *testing.T) {
	const secret = "a secret of more than thirty-two bytes"
	s := serve(t, auth.Config{Secret: secret})
	for path, body := range map[string]string{
		"/queues/shard-worker/take":  `{"worker":"w"}`,
		"/queues/shard-worker/pause": `{}`,
	} {
		for scope, want := range map[auth.Scope]int{"": 401, auth.Read: 403, auth.Work: 403, auth.Admin: 200} {
			if scope == auth.Work && strings.HasSuffix(path, "take") {
				want = 200
			}
			s.Token = ""
			if scope != "" {
				token, err := auth.Mint(secret, "tester", []auth.Scope{scope}, time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				s.Token = token
			}
			if status, text := s.Post(path, body); status != want {
				t.Errorf("POST %s with %q: %d %s, want %d", path, scope, status, text, want)
			}
		}
	}
}

// FuzzCommand holds that whatever passes the checks can be kept.
func FuzzCommand(f *testing.F) {
	f.Add("a", int64(0), "w", "", "boom")
	f.Add("a.event-ingest.txt", int64(0), "", "a key", "")
	f.Add("a/b", int64(-1), "\x00", "\x00", "\xff\x00")
	f.Fuzz(func(t *testing.T, filename string, number int64, worker, key, text string) {
		r := MoveRequest{MovePath: MovePath{Stage: "shard-worker", Transition: "start", Key: key}}
		r.Body = MoveItem{Item{Filename: filename, Shard: number}, Options{Worker: worker, Error: text}}
		a, err := r.parse()
		if err != nil {
			if len(endpoint.Faults(err)) == 0 {
				t.Errorf("%v is no rule", err)
			}
			return
		}
		c := a.commands[0]
		for _, kept := range []string{c.Name, c.Worker, c.Error} {
			if strings.ContainsRune(kept, 0) || strings.ToValidUTF8(kept, "") != kept || len(kept) > item.MaxError {
				t.Errorf("%q cannot be kept", kept)
			}
		}
		if int64(c.Part) != number || c.Name == "" || strings.Contains(c.Name, "/") {
			t.Errorf("%+v", c)
		}
	})
}
