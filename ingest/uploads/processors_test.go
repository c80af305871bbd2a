package uploads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/ingest/queues"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// shop is a site with the queue enrich, whose items workers take over HTTP and NATS.
type shop struct {
	*site
	nc *nats.Conn
	q  queue.ID
}

func openShop(t *testing.T, cfg auth.Config) *shop {
	t.Helper()
	queueSite := trackingtest.Start(t, &engine)
	s := &shop{
		site: serveOn(t, queueSite.Store.Pool(), queueSite.Store.Queues(), cfg, uploads.Limits{}), nc: queueSite.NATS,
	}
	h, err := queues.New(s.own, queueSite.Hands, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	h.Register(endpoint.API{Server: s.srv, Auth: s.auth, Log: embeddedtest.Log(t)})
	reports, err := userqueue.NewReports(s.own, queueSite.Hands)
	if err != nil {
		t.Fatal(err)
	}
	embeddedtest.Go(s.t, s.own.Queues().Run)
	embeddedtest.Go(s.t, func(ctx context.Context) error { return reports.Serve(ctx, s.nc, embeddedtest.Log(t)) })
	if _, err := s.own.Create(t.Context(), queue.Settings{Name: "enrich", LeaseS: 30, RetentionS: 3600, MaxItems: 100_000}); err != nil {
		t.Fatal(err)
	}
	v, err := s.own.Get(t.Context(), "enrich")
	if err != nil {
		t.Fatal(err)
	}
	if err := queueSite.Hands.Ensure(t.Context(), "enrich", 30*time.Second); err != nil {
		t.Fatal(err)
	}
	s.q = v.ID
	return s
}

// work is an item as a worker gets it.
type work struct {
	ID         int64
	Generation int32
	Attempt    int32
	Payload    struct {
		uploads.Payload
		Input map[string]string
	}
}

func (s *shop) take(ctx context.Context, n int, leaseS float64) (items []work) {
	var out struct{ Items []work }
	status, text := s.post(ctx, "/api/v1/queues/enrich/take", fmt.Sprintf(`{"worker":"w","limit":%d,"lease_s":%g}`, n, leaseS))
	if status == 200 {
		if err := json.Unmarshal(text, &out); err != nil {
			s.t.Error(err)
		}
	} else if ctx.Err() == nil {
		s.t.Errorf("take: %d %s", status, text)
	}
	return out.Items
}

// taken takes so many items, as they come.
func (s *shop) taken(n int) (items []work) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); len(items) < n; time.Sleep(5 * time.Millisecond) {
		items = append(items, s.take(s.t.Context(), n-len(items), 30)...)
		if time.Now().After(deadline) {
			s.t.Fatalf("%d items of %d were taken: %s", len(items), n, s.state())
		}
	}
	return items
}

// state describes jobs, the queue and its items.
func (s *shop) state() (text string) {
	if err := s.pool.QueryRow(s.t.Context(), `SELECT json_build_object('jobs', (SELECT json_agg(u) FROM millrace.upload AS u),
		'queue', (SELECT json_agg(s) FROM millrace.stage AS s WHERE stage = $1), 'items', (SELECT count(*) FROM millrace.item),
		'ready', (SELECT count(*) FROM millrace.ready), 'outbox', (SELECT count(*) FROM millrace.outbox),
		'claim', (SELECT count(*) FROM millrace.claim))::text`, s.q).Scan(&text); err != nil {
		return err.Error()
	}
	return text
}

// post sends a document without a contract: workers go on when the test has failed.
func (s *shop) post(ctx context.Context, path, body string) (int, []byte) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0, nil
	}
	r.Header.Set("Content-Type", "application/json")
	if s.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+s.bearer)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(answer.Body)
	return answer.StatusCode, text.Bytes()
}

// report says what became of an item, and wants the answer 200.
func (s *shop) report(it work, what, members string) {
	s.t.Helper()
	body := fmt.Sprintf(`{"generation":%d%s}`, it.Generation, members)
	if status, text := s.post(s.t.Context(), fmt.Sprintf("/api/v1/queues/enrich/items/%d/%s", it.ID, what), body); status != 200 {
		s.t.Errorf("%s %s: %d %s", what, members, status, text)
	}
}

// unsound finds what contradicts the promise: counters that are not those of rows, rows whose item has ended, and
// items without a row.
const unsound = `SELECT 'counters of job ' || u.no || ': ' || (u.pending, u.processing, u.done, u.error, u.not_found, u.skipped)::text || ' and rows ' || c::text
	FROM millrace.upload AS u, LATERAL (SELECT (count(*) FILTER (WHERE status = 0))::integer AS a, (count(*) FILTER (WHERE status = 1))::integer AS b,
		(count(*) FILTER (WHERE status = 2))::integer AS c, (count(*) FILTER (WHERE status = 3))::integer AS d,
		(count(*) FILTER (WHERE status = 4))::integer AS e, (count(*) FILTER (WHERE status = 5))::integer AS f
		FROM millrace.upload_item WHERE job_no = u.no) AS c
	WHERE (u.pending, u.processing, u.done, u.error, u.not_found, u.skipped) <> (c.a, c.b, c.c, c.d, c.e, c.f)
	UNION ALL SELECT 'row ' || i.row_no || ' is in no queue' FROM millrace.upload_item AS i LEFT JOIN millrace.item AS t ON t.id = i.item_id
	WHERE i.status = 1 AND (t.id IS NULL OR t.status NOT IN ('new', 'started'))
	UNION ALL SELECT 'item ' || t.id || ' has no row' FROM millrace.item AS t WHERE t.stage = $1 AND t.status IN ('new', 'started')
	AND NOT EXISTS (SELECT FROM millrace.upload_item WHERE item_id = t.id AND status = 1)
	UNION ALL SELECT 'row ' || row_no || ' of job ' || job_no || ' had ' || count(*) || ' final statuses' FROM ended.final
	GROUP BY job_no, row_no HAVING count(*) > 1`

// watching logs each final status of a row.
const watching = `CREATE SCHEMA ended;
CREATE TABLE ended.final (job_no integer, row_no integer, status smallint);
CREATE FUNCTION ended.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO ended.final VALUES (NEW.job_no, NEW.row_no, NEW.status); RETURN NULL; END $$;
CREATE TRIGGER ended AFTER UPDATE ON millrace.upload_item FOR EACH ROW WHEN (NEW.status > 1) EXECUTE FUNCTION ended.note();`

func (s *shop) processed(id uuid.UUID) int32 {
	j := s.job(id)
	return j.Processed()
}

func (s *shop) watch() {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), watching); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) sound() {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), unsound, s.q)
	var all []string
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil || len(all) > 0 {
		s.t.Fatalf("%v, %v", all[:min(len(all), 5)], err)
	}
}

// plan is what workers make of a row at each attempt; the last one counts for all that follow.
type plan []string

// final is the status that a row has in the end: the limits of attempts are 5 of errors, and 2 of rows not found.
func (p plan) final() schema.Status {
	for attempt := 1; ; attempt++ {
		switch p.at(attempt) {
		case "ok":
			return schema.StatusDone
		case "skip":
			return schema.Skipped
		case "missing":
			if attempt >= 2 {
				return schema.NotFound
			}
		case "invalid", "list", "huge":
			return schema.Error
		default:
			if attempt >= 5 {
				return schema.Error
			}
		}
	}
}

func (p plan) at(attempt int) string { return p[min(attempt, len(p))-1] }

// plans are drawn for rows, the first ones more often.
var plans = []plan{
	{"ok"},
	{"ok"},
	{"ok"},
	{"ok"},
	{"ok"},
	{"fail", "ok"},
	{"missing", "ok"},
	{"missing"},
	{"skip"},
	{"fail"},
	{"throttle", "throttle", "ok"},
	{"invalid"},
	{"list"},
	{"again", "ok"},
	{"release", "ok"},
	{"vanish", "ok"},
	{"huge"},
	{"missing", "fail", "fail", "ok"},
}

// TestProcessors: rows are worked by workers that succeed, fail, throttle, find nothing and vanish, over HTTP and NATS,
// while jobs are paused, resumed and cancelled and the process that feeds is killed. Each row gets the one final status
// that its plan has, and counters are those of rows at every look (1, 2, 6).
func TestProcessors(t *testing.T) {
	slowtest.Mark(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := openShop(t, auth.Config{})
	s.watch()
	r := rand.New(rand.NewPCG(seed, 1))
	const rows = 300
	all := make([]plan, rows+1)
	var file, small bytes.Buffer
	file.WriteString("no,title\n")
	small.WriteString("no,title\n")
	for i := 1; i <= rows; i++ {
		all[i] = plans[r.IntN(len(plans))]
		fmt.Fprintf(&file, "%d,Chair “%d”\n", i, i)
		if i <= 40 {
			fmt.Fprintf(&small, "%d,Table\n", i)
		}
	}
	id := s.made("many.csv", file.Bytes(), "processor", "enrich", "mapping", `{"title":"title"}`)
	second := s.made("few.csv", small.Bytes(), "processor", "enrich")
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var released sync.Map
	for i := range 3 {
		workers.Go(func() {
			for ctx.Err() == nil {
				items := s.take(ctx, 1+i*5, 1)
				for _, it := range items {
					s.carryOut(ctx, it, all, &released)
				}
				if len(items) == 0 {
					time.Sleep(5 * time.Millisecond) // between two polls
				}
			}
		})
	}
	workers.Go(func() { s.overNATS(ctx, all, &released) })
	killed := s.disturb(r, id, second)
	stop()
	workers.Wait()
	s.sound()
	for no, want := range s.statuses(id) {
		if final := all[no].final(); want != final {
			t.Errorf("row %d of plan %v is %s, want %s", no, all[no], want, final)
		}
	}
	j := s.job(id)
	if j.State != schema.Done || j.Processed() != rows || j.CancelledAt != nil {
		t.Errorf("%s, %v, killed %d times", j.State, j.Counts, killed)
	}
	if j = s.job(second); j.State != schema.Done || j.Processed() != 40 {
		t.Errorf("the second: %s, %v", j.State, j.Counts)
	}
}

// disturb has processes feed and be killed, and jobs paused, resumed and one of them cancelled, until both have ended.
func (s *shop) disturb(r *rand.Rand, id, second uuid.UUID) (killed int) {
	s.t.Helper()
	who := uploads.Viewer{All: true}
	var cmd *exec.Cmd
	for deadline := time.Now().Add(4 * time.Minute); !ended(s.job(id)) || !ended(s.job(second)); {
		if time.Now().After(deadline) {
			s.t.Fatalf("it does not end: %+v", s.job(id))
		}
		if cmd == nil {
			cmd = exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "MILLRACE_TEST_RUNNER="+s.dsn, "MILLRACE_TEST_NATS="+s.nats.URL())
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				s.t.Fatal(err)
			}
		}
		for range 20 {
			time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond) // the history goes on meanwhile
			s.sound()
		}
		of := id
		if r.IntN(2) == 0 {
			of = second
		}
		var err error
		switch r.IntN(6) {
		case 0:
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			cmd = nil
			killed++
		case 1, 2:
			var j uploads.Job
			if j, err = s.store.Pause(s.t.Context(), who, of); err == nil {
				err = s.feed.Withdraw(s.t.Context(), j)
				s.withdrawn(j)
			}
		case 3:
			if of == second && killed > 1 {
				_, err = s.store.Cancel(s.t.Context(), who, of)
			}
		}
		var state *uploads.StateError
		if err != nil && !errors.As(err, &state) {
			s.t.Fatal(err)
		}
		for _, of := range []uuid.UUID{id, second} {
			if _, err := s.store.Resume(s.t.Context(), who, of, nil, nil); err != nil && !errors.As(err, &state) {
				s.t.Fatal(err)
			}
		}
	}
	if cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return killed
}

// withdrawn holds that nothing of a paused job is in the queue but what workers have.
func (s *shop) withdrawn(j uploads.Job) {
	s.t.Helper()
	var n int
	if err := s.pool.QueryRow(s.t.Context(), `SELECT count(*) FROM millrace.item WHERE stage = $1 AND "group" = $2 AND status = 'new'
		AND generation = 1`, s.q, uploads.GroupOf(j.ID)).Scan(&n); err != nil || n > 0 {
		s.t.Errorf("%d items of a paused upload may be taken, %v", n, err)
	}
}

func (s *shop) statuses(id uuid.UUID) map[int]schema.Status {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT row_no, i.status FROM millrace.upload_item AS i
		JOIN millrace.upload AS u ON u.no = i.job_no WHERE u.id = $1`, id)
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[int]schema.Status{}
	var no int
	var status schema.Status
	if _, err := pgx.ForEachRow(rows, []any{&no, &status}, func() error { all[no] = status; return nil }); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// said returns what a worker says of an item by its plan: the report and its members; empty: nothing.
func said(it work, all []plan, released *sync.Map) (what, members string) {
	what = all[it.Payload.RowNo].at(int(it.Attempt))
	if what == "release" { // which counts as no attempt
		if _, before := released.LoadOrStore(it.Payload.ItemID, true); before {
			what = "ok"
		}
	}
	switch what {
	case "ok":
		return "done", fmt.Sprintf(`,"result":{"title":%q,"attempt":%d}`, it.Payload.Input["title"], it.Attempt)
	case "skip":
		return "done", `,"skipped":true`
	case "missing":
		return "done", `,"not_found":true`
	case "fail":
		return "fail", `,"error":"broken","class":"network","delay_s":0`
	case "throttle":
		return "fail", `,"error":"slow down","class":"429","domain":"shop.example","retry_after_s":0.01,"delay_s":0.01`
	case "invalid":
		return "fail", `,"error":"no such product","class":"invalid"`
	case "list":
		return "done", `,"result":[1]`
	case "huge":
		return "done", `,"result":{"x":"` + strings.Repeat("x", userqueue.MaxResult) + `"}`
	case "again":
		return "again", `,"error":"later"`
	case "release":
		return "release", ``
	}
	return "", ""
}

// carryOut says of an item what its plan has. It may have been cancelled, or have been given to another meanwhile.
func (s *shop) carryOut(ctx context.Context, it work, all []plan, released *sync.Map) {
	what, members := said(it, all, released)
	if what == "" {
		return
	}
	body := fmt.Sprintf(`{"generation":%d,"worker":"w"%s}`, it.Generation, members)
	for range 3 { // asking again is safe
		status, text := s.post(ctx, fmt.Sprintf("/api/v1/queues/enrich/items/%d/%s", it.ID, what), body)
		if ctx.Err() != nil || status == 409 {
			return
		}
		if status != 200 {
			s.t.Errorf("%s: %d %s", what, status, text)
		}
	}
}

// overNATS works as a daemon does that knows nothing but NATS.
func (s *shop) overNATS(ctx context.Context, all []plan, released *sync.Map) {
	js, err := jetstream.New(s.nc)
	if err != nil {
		s.t.Error(err)
		return
	}
	for ctx.Err() == nil {
		c, err := js.Consumer(ctx, stream.Work, "enrich")
		if err != nil {
			continue
		}
		m, err := c.Next(jetstream.FetchMaxWait(100 * time.Millisecond))
		if err != nil {
			continue
		}
		var it struct {
			stream.QueueItem
			Payload struct {
				uploads.Payload
				Input map[string]string
			} `json:"payload"`
		}
		if err := json.Unmarshal(m.Data(), &it); err != nil {
			s.t.Error(err)
			return
		}
		w := work{ID: it.ID, Generation: it.Generation, Attempt: it.Attempt, Payload: it.Payload}
		what, members := said(w, all, released)
		if what == "" {
			what = "again" // a daemon that vanishes holds the item for as long as the queue says
		}
		body := fmt.Sprintf(`{"queue":"enrich","id":%d,"generation":%d,"report":%q%s}`, it.ID, it.Generation, what, members)
		answer, err := s.nc.Request(stream.WorkReport, []byte(body), 10*time.Second)
		if err != nil && ctx.Err() == nil {
			s.t.Logf("report: %v", err)
			continue
		}
		var out stream.Reported
		if err == nil && (json.Unmarshal(answer.Data, &out) != nil || out.Error != "" && !out.Refused) {
			s.t.Logf("report %s: %s", what, answer.Data)
		}
	}
}

// TestProcessorResults: what workers say is in the grid and in exports, with what failed and why, and the input that no
// payload has room for is behind a link.
func TestProcessorResults(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.run(schema.Bounds{})
	embeddedtest.Go(s.t, s.feed.Run)
	large := strings.Repeat("<é>", 20_000)
	id := s.made("x.csv", []byte("sku,title\n1,Chair\n2,"+large+"\n3,Lamp\n4,Bed\n5,Sofa\n"), "processor", "enrich", "mapping", `{"sku":"sku"}`)
	items := s.taken(5)
	page, _, err := s.store.Items(t.Context(), s.job(id), uploads.ItemsQuery{Statuses: []schema.Status{schema.Processing}, ByRow: true, Limit: 10})
	if err != nil || len(page) != 5 || page[0].Worker == nil || *page[0].Worker != "w" || page[0].TakenAt == nil || page[0].Attempts != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, it := range items {
		p := it.Payload
		if p.JobID != id.String() || p.ItemID != schema.ItemID(id.String(), int64(p.RowNo)) || p.Strategy != 0 {
			t.Errorf("%+v", p)
		}
		switch p.RowNo {
		case 1:
			s.report(it, "done", `,"result":{"price":12.5,"title":"Chair!"}`)
		case 2:
			status, text := s.send(http.MethodGet, p.InputLink, "", nil)
			var in struct{ Input map[string]string }
			if err := json.Unmarshal([]byte(text), &in); err != nil || status != 200 || in.Input["title"] != large || len(p.Input) > 0 {
				t.Errorf("%s: %d %.200s, %v", p.InputLink, status, text, err)
			}
			s.report(it, "done", `,"result":{"title":"Table","stock":{"n":1}}`)
			if status, _ := s.send(http.MethodGet, p.InputLink, "", nil); status != 404 {
				t.Errorf("the link answers %d when the item has ended", status)
			}
		case 3:
			s.report(it, "fail", `,"error":"no such product","class":"invalid"`)
		case 4:
			s.report(it, "done", `,"result":{"x":"\u0000"}`)
		default:
			s.report(it, "done", ``)
		}
	}
	j := s.until(id, "it has ended", ended)
	if j.State != schema.Done || j.Counts != [6]int32{0, 0, 3, 2, 0, 0} {
		t.Errorf("%s %v", j.State, j.Counts)
	}
	page, _, err = s.store.Items(t.Context(), j, uploads.ItemsQuery{Statuses: []schema.Status{2, 3}, ByRow: true, Limit: 10})
	if err != nil || len(page) != 5 || string(page[0].Result) != `{"price":12.5,"title":"Chair!"}` || string(page[4].Result) != "{}" ||
		page[2].Error == nil || *page[2].Error != "no such product" || page[3].Error == nil || !strings.Contains(*page[3].Error, `\u0000`) {
		t.Errorf("%+v, %v", page, err)
	}
	results, err := s.store.Results(t.Context(), uploads.Viewer{All: true}, id, uploads.MaxColumns)
	if err != nil {
		t.Fatal(err)
	}
	defer results.Close()
	cells, _, err := results.Next()
	if err != nil || fmt.Sprint(results.Columns) != "[price title stock]" || len(cells) != 3 || fmt.Sprint(cells[1].Cells) != `[ Table {"n":1}]` {
		t.Errorf("%v %v, %v", results.Columns, cells, err)
	}
}

// TestProcessorControl: pause takes out of the queue what no worker has, resume goes on, reprocess begins anew, cancel
// leaves nothing, and delete leaves nothing of the rows in the queue.
func TestProcessorControl(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.watch()
	s.run(schema.Bounds{})
	embeddedtest.Go(s.t, s.feed.Run)
	post := func(id uuid.UUID, what string) {
		t.Helper()
		if status, text := s.send(http.MethodPost, "/api/v1/uploads/"+id.String()+what, "application/json", nil); status != 200 {
			t.Fatalf("%s: %d %s", what, status, text)
		}
	}
	text, _ := sample(30)
	id := s.made("x.csv", []byte(text), "processor", "enrich")
	s.until(id, "in the queue", func(j uploads.Job) bool { return j.Counts[schema.Processing] == 8 }) // the smallest slice
	held := s.take(t.Context(), 2, 30)
	post(id, "/pause")
	if j := s.job(id); j.Counts[schema.Processing] != 2 || j.Counts[schema.Pending] != 28 {
		t.Errorf("paused: %v", j.Counts)
	}
	if got := s.take(t.Context(), 10, 30); len(got) != 0 {
		t.Errorf("%d items of a paused upload were taken", len(got))
	}
	s.report(held[0], "done", `,"result":{"a":1}`)
	s.report(held[1], "fail", `,"error":"x","permanent":true`)
	s.sound()
	post(id, "/resume")
	s.until(id, "in the queue again", func(j uploads.Job) bool { return j.Counts[schema.Processing] >= 8 })
	kick := make(chan string, 1)
	go func() {
		_, text := s.post(t.Context(), "/api/v1/uploads/"+id.String()+"/kickoff?durationMs=20000", "")
		kick <- string(text)
	}()
	for deadline := time.Now().Add(time.Minute); s.processed(id) < 30; time.Sleep(5 * time.Millisecond) {
		for _, it := range s.take(t.Context(), 10, 30) {
			s.report(it, "done", `,"result":{"a":2}`)
		}
		if time.Now().After(deadline) {
			t.Fatal(s.state())
		}
	}
	s.until(id, "done", ended)
	if text := <-kick; !strings.Contains(text, `"processed":28`) {
		t.Errorf("kickoff: %s", text)
	}
	post(id, "/reprocess")
	if _, err := s.pool.Exec(t.Context(), "TRUNCATE ended.final"); err != nil {
		t.Fatal(err)
	}
	again := s.taken(1)
	if again[0].Attempt != 2 || again[0].Payload.Strategy != 1 {
		t.Errorf("a row that is processed again: attempt %d, strategy %d", again[0].Attempt, again[0].Payload.Strategy)
	}
	post(id, "/cancel")
	if status, _ := s.post(t.Context(), fmt.Sprintf("/api/v1/queues/enrich/items/%d/done", again[0].ID), `{}`); status != 409 {
		t.Errorf("done of a cancelled item: %d", status)
	}
	j := s.until(id, "cancelled", ended)
	if j.Counts != [6]int32{0, 0, 29, 0, 0, 1} {
		t.Errorf("%v", j.Counts)
	}
	s.sound()
	if status, text := s.send(http.MethodDelete, "/api/v1/uploads/"+id.String(), "", nil); status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var left int
		if err := s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM millrace.item WHERE payload IS NOT NULL OR error IS NOT NULL)
			+ (SELECT count(*) FROM millrace.upload_result) + (SELECT count(*) FROM millrace.upload)`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d rows are left", left)
		}
	}
}

// TestProcessorPauseMeanwhile: a pause that comes between what the feed reads and what it writes leaves nothing in the
// queue (6).
func TestProcessorPauseMeanwhile(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.watch()
	s.run(schema.Bounds{})
	id := s.made("x.csv", []byte("a\n1\n2\n"), "processor", "enrich")
	s.until(id, "persisted", func(j uploads.Job) bool { return j.ReadAll })
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE millrace.upload SET queue_state = 'PAUSED'"); err != nil {
		t.Fatal(err)
	}
	fed := make(chan int, 1)
	go func() {
		n, err := s.feed.Step(t.Context(), "enrich")
		if err != nil {
			t.Error(err)
		}
		fed <- n
	}()
	for waits, deadline := false, time.Now().Add(time.Minute); !waits; {
		if err := s.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND datname = current_database())`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the feed does not wait for the job")
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var items int
	if n := <-fed; n != 0 {
		t.Errorf("%d rows of a paused upload were fed", n)
	}
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM millrace.item").Scan(&items); err != nil || items != 0 {
		t.Errorf("%d items of a paused upload are in the queue, %v", items, err)
	}
	s.sound()
}

// TestProcessorGone: an upload whose queue is deleted fails and says so, and goes on when there is one again.
func TestProcessorGone(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.watch()
	s.run(schema.Bounds{})
	embeddedtest.Go(s.t, s.feed.Run)
	for processor, want := range map[string]int{"none": 400, "shard-worker": 400, "": 400} {
		if status, text := s.upload("/api/v1/uploads", "x.csv", []byte("a\n1\n"), "processor", processor); status != want ||
			!strings.Contains(text, `"field":"processor"`) {
			t.Errorf("processor %q: %d %s", processor, status, text)
		}
	}
	id := s.made("x.csv", []byte("a\n1\n2\n3\n"), "processor", "enrich")
	s.until(id, "in the queue", func(j uploads.Job) bool { return j.Counts[schema.Processing] == 3 })
	if _, err := s.own.Delete(t.Context(), "enrich", true); err != nil {
		t.Fatal(err)
	}
	j := s.until(id, "it has failed", func(j uploads.Job) bool { return j.State == schema.Failed })
	if j.Counts[schema.Pending] != 3 || j.LastError == nil || !strings.Contains(*j.LastError, "enrich is gone") {
		t.Errorf("%v %v", j.Counts, j.LastError)
	}
	if _, err := s.own.Create(t.Context(), queue.Settings{Name: "enrich", LeaseS: 30, RetentionS: 3600, MaxItems: 1000}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Resume(t.Context(), uploads.Viewer{All: true}, id, nil, nil); err != nil {
		t.Fatal(err)
	}
	s.until(id, "in the queue again", func(j uploads.Job) bool { return j.Counts[schema.Processing] == 3 && j.State == schema.Running })
	v, err := s.own.Get(t.Context(), "enrich")
	if err != nil {
		t.Fatal(err)
	}
	s.q = v.ID
	s.sound()
}

// TestProcessorOwners: an input is for the upload's user, for admins, and for who has the link to it; and the groups of a
// user are those of his own uploads.
func TestProcessorOwners(t *testing.T) {
	s := openShop(t, auth.Config{Secret: secret})
	s.run(schema.Bounds{})
	embeddedtest.Go(s.t, s.feed.Run)
	s.token("ann", auth.Uploads)
	id := s.made("x.csv", []byte("a\n"+strings.Repeat("x", 70_000)+"\n"), "processor", "enrich")
	s.token("worker", auth.Work)
	it := s.taken(1)[0]
	path, _, _ := strings.Cut(it.Payload.InputLink, "?")
	for _, c := range []struct {
		sub   string
		scope auth.Scope
		link  string
		want  int
	}{
		{"worker", auth.Work, it.Payload.InputLink, 200},
		{"worker", auth.Work, path, 404},
		{"worker", auth.Work, path + "?key=" + strings.Repeat("0", 64), 404},
		{"bob", auth.Uploads, path, 404},
		{"ann", auth.Uploads, path, 200},
		{"root", auth.Admin, path, 200},
		{"root", auth.Admin, strings.Replace(path, "/inputs/1", "/inputs/2", 1), 404},
		{"bob", auth.Read, it.Payload.InputLink, 403},
	} {
		s.token(c.sub, c.scope)
		if status, text := s.send(http.MethodGet, c.link, "", nil); status != c.want {
			t.Errorf("%s %s: %d %.200s, want %d", c.sub, c.link, status, text, c.want)
		}
	}
	for sub, want := range map[string]string{"ann": "[" + uploads.GroupOf(id) + "]", "bob": "[]"} {
		groups, err := s.store.Groups(t.Context(), sub, "enrich")
		if err != nil || fmt.Sprint(groups) != want {
			t.Errorf("%s: %v, %v, want %s", sub, groups, err, want)
		}
	}
}

// TestProcessorDomains: rows that a domain has refused are tried again one after the other, none before the time that the
// domain has asked for in any answer. Rows of another domain, and errors of the network, do not wait for it.
func TestProcessorDomains(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.run(schema.Bounds{})
	embeddedtest.Go(s.t, s.feed.Run)
	s.made("x.csv", []byte("a\n1\n2\n3\n4\n5\n6\n"), "processor", "enrich")
	items := s.taken(6)
	begun := time.Now()
	for i, members := range []string{
		`,"error":"429","class":"429","domain":"shop.example","retry_after_s":600`,
		`,"error":"503","class":"503","domain":"shop.example"`,
		`,"error":"429","class":"429","domain":"shop.example","retry_after_s":60`,
		`,"error":"429","class":"429","domain":"other.example"`,
		`,"error":"cut off","class":"network","domain":"shop.example"`,
	} {
		s.report(items[i], "fail", members)
	}
	// The clock of Postgres is set back by ten hours.
	if _, err := s.pool.Exec(t.Context(), `UPDATE millrace.error_domain SET changed_at = changed_at + interval '10 hours',
		next_at = next_at + interval '10 hours'`); err != nil {
		t.Fatal(err)
	}
	s.report(items[5], "fail", `,"error":"429","class":"429","domain":"shop.example"`)
	due := make([]time.Duration, 6)
	for i := range due {
		var at time.Time
		if err := s.pool.QueryRow(t.Context(), "SELECT due_at FROM millrace.delayed WHERE item_id = $1", items[i].ID).Scan(&at); err != nil {
			t.Fatal(err)
		}
		due[i] = at.Sub(begun)
	}
	if due[0] < 600*time.Second || due[1] < due[0]+100*time.Millisecond || due[2] < due[1]+100*time.Millisecond ||
		due[3] > 100*time.Second || due[4] > 100*time.Second || due[4] < 0 || due[5] > 100*time.Second {
		t.Errorf("the rows wait for %v", due)
	}
}

// TestProcessorClock: the clock of Postgres is set back by ten hours while a row waits that was not found. It is
// looked for again in time, and not ten hours later.
func TestProcessorClock(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.run(schema.Bounds{})
	embeddedtest.Go(s.t, s.feed.Run)
	id := s.made("x.csv", []byte("a\n1\n"), "processor", "enrich")
	missing := s.taken(1)[0]
	command := func(what string) {
		t.Helper()
		if status, text := s.send(http.MethodPost, "/api/v1/uploads/"+id.String()+"/"+what, "", nil); status != 200 {
			t.Fatal(status, text)
		}
	}
	command("pause") // so that it waits
	s.report(missing, "done", `,"not_found":true`)
	tag, err := s.pool.Exec(t.Context(), `WITH slices AS (UPDATE millrace.upload SET slice_at = slice_at + interval '10 hours')
		UPDATE millrace.upload_item SET due_at = due_at + interval '10 hours' WHERE status = 0 AND due_at IS NOT NULL`)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
	command("resume")
	s.report(s.taken(1)[0], "done", `,"result":{}`)
	s.until(id, "done", ended)
}

// TestProcessorFairness: one user's many rows do not hold up another's few.
func TestProcessorFairness(t *testing.T) {
	s := openShop(t, auth.Config{})
	s.run(schema.Bounds{})
	text, _ := sample(2000)
	many := s.made("many.csv", []byte(text), "processor", "enrich")
	s.until(many, "persisted", func(j uploads.Job) bool { return j.ReadAll })
	few := s.made("few.csv", []byte("a\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"), "processor", "enrich")
	s.until(few, "persisted", func(j uploads.Job) bool { return j.ReadAll })
	embeddedtest.Go(s.t, s.feed.Run)
	var taken atomic.Int64
	for deadline := time.Now().Add(time.Minute); s.processed(few) < 10; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(s.state())
		}
		for _, it := range s.take(t.Context(), 10, 30) {
			taken.Add(1)
			s.report(it, "done", `,"result":{}`)
		}
		if taken.Load() > 200 {
			t.Fatalf("%d items were worked on, and of 10 %v", taken.Load(), s.job(few).Counts)
		}
	}
}
