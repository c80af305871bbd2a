package uploads

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace-io/millrace/ingest/webhooks"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// here are addresses that tests may call.
var here = webhooks.NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})

// sends makes what sends items to webhooks, on a database and NATS.
func sends(pool *pgxpool.Pool, own *userqueue.Store, nc *nats.Conn, log *slog.Logger) (*webhooks.Runner, error) {
	store, err := webhooks.NewStore(pool)
	if err != nil {
		return nil, err
	}
	hands, err := handout.New(nc, own.Queues(), stream.WorkConfig{})
	if err != nil {
		return nil, err
	}
	return webhooks.NewRunner(webhooks.RunnerConfig{Margin: time.Second, Grace: 200 * time.Millisecond}, webhooks.Deps{
		Sender: webhooks.NewSender(here, nil), Store: store, Own: own, Hands: hands, Registry: prometheus.NewRegistry(), Log: log,
	})
}

// sendAlone sends items in a process of its own, until it is killed.
func sendAlone(dsn, url string) error {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	queue.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(url, nats.UserInfo("millrace", "test"))
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	store, err := uploads.New(pool, uploads.Limits{}, uploads.Attempts{})
	if err != nil {
		return err
	}
	_, own, err := feeder(store, nil, log)
	if err != nil {
		return err
	}
	r, err := sends(pool, own, nc, log)
	if err != nil {
		return err
	}
	return r.Run(context.Background())
}

// hook sets the webhook of the queue over HTTP, and returns its secret.
func (s *shop) hook(url string, timeoutS float64, concurrency int) string {
	s.t.Helper()
	var out webhooks.QueueWebhook
	body := fmt.Sprintf(`{"url":%q,"timeout_s":%g,"concurrency":%d}`, url, timeoutS, concurrency)
	status, text := s.send(http.MethodPut, "/api/v1/queues/enrich/webhook", "application/json", bytes.NewReader([]byte(body)))
	if err := json.Unmarshal([]byte(text), &out); err != nil || status != 200 || out.URL != url {
		s.t.Fatalf("%d %s, %v", status, text, err)
	}
	return out.Secret
}

// openHooked is openShop with webhooks.
func openHooked(t *testing.T, cfg auth.Config) *shop {
	t.Helper()
	s := openShop(t, cfg)
	store, err := webhooks.NewStore(s.pool)
	if err != nil {
		t.Fatal(err)
	}
	h, err := webhooks.New(here, store, s.own)
	if err != nil {
		t.Fatal(err)
	}
	h.Register(endpoint.API{Server: s.srv, Auth: s.auth, Log: embeddedtest.Log(t)})
	s.describe()
	return s
}

// receiver is a webhook that answers as plans have it.
type receiver struct {
	t     *testing.T
	hook  *standardwebhooks.Webhook
	plans []plan

	mu     sync.Mutex
	calls  map[string]int // by id
	atOnce int
	most   int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.atOnce++
	r.most = max(r.most, r.atOnce)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.atOnce--
	}()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the process that sent it was killed
	}
	var c struct {
		webhooks.Call
		Payload struct {
			uploads.Payload
			Input map[string]string
		} `json:"payload"`
	}
	if err := r.hook.Verify(body, req.Header); err != nil {
		r.t.Errorf("a request is not signed: %v", err)
	}
	if err := json.Unmarshal(body, &c); err != nil || req.Header.Get("Webhook-Id") != fmt.Sprintf("enrich-%d", c.ID) {
		r.t.Errorf("%s: %v", body, err)
	}
	r.mu.Lock()
	r.calls[req.Header.Get("Webhook-Id")]++
	r.mu.Unlock()
	r.answer(w, c.Payload.Input["title"], r.plans[c.Payload.RowNo].at(int(c.Attempt)))
}

// answer answers as a step of a plan has it.
func (r *receiver) answer(w http.ResponseWriter, title, step string) {
	switch step {
	case "ok":
		_ = json.NewEncoder(w).Encode(map[string]string{"title": title})
	case "empty":
		w.WriteHeader(http.StatusNoContent)
	case "missing":
		http.Error(w, "no such product", http.StatusNotFound)
	case "throttle":
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
	case "fail":
		w.WriteHeader(http.StatusBadGateway)
	case "invalid":
		w.WriteHeader(http.StatusUnprocessableEntity)
	case "redirect":
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case "list":
		_, _ = w.Write([]byte("[1]"))
	case "huge":
		_, _ = w.Write(bytes.Repeat([]byte(" {"), userqueue.MaxResult))
	case "vanish": // the connection breaks within the answer
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("{"))
		panic(http.ErrAbortHandler)
	}
}

// hookPlans are drawn for rows. Errors of 5xx are few: each makes the ones after it wait.
var hookPlans = []plan{
	{"ok"},
	{"ok"},
	{"ok"},
	{"ok"},
	{"ok"},
	{"ok"},
	{"empty"},
	{"missing"},
	{"missing", "ok"},
	{"invalid"},
	{"redirect"},
	{"list"},
	{"huge"},
	{"vanish", "ok"},
}

// finalOf is what a plan ends with.
func finalOf(p plan) schema.Status {
	switch last := p[len(p)-1]; {
	case last == "missing":
		return schema.NotFound
	case last == "ok" || last == "empty":
		return schema.StatusDone
	}
	return schema.Error
}

// TestWebhook: rows are sent to a receiver that succeeds, finds nothing, refuses, breaks off and is slow down, while the
// processes that send are killed. Each row gets the one final status that its plan has, each request is signed, and
// counters are those of rows at every look (6, and 1 of package webhook).
func TestWebhook(t *testing.T) {
	slowtest.Mark(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := openHooked(t, auth.Config{})
	s.watch()
	s.run(schema.Bounds{})
	embeddedtest.Go(t, s.feed.Run)
	r := rand.New(rand.NewPCG(seed, 1))
	const rows = 200
	all := make([]plan, rows+1)
	var file bytes.Buffer
	file.WriteString("no,title\n")
	for i := 1; i <= rows; i++ {
		all[i] = hookPlans[r.IntN(len(hookPlans))]
		fmt.Fprintf(&file, "%d,Chair “%d”\n", i, i)
	}
	all[1+r.IntN(rows)], all[1+r.IntN(rows)] = plan{"fail", "ok"}, plan{"throttle", "ok"}
	to := &receiver{t: t, plans: all, calls: map[string]int{}}
	web := httptest.NewServer(to)
	defer web.Close()
	secret := s.hook(web.URL+"/in", 10, 4)
	var err error
	if to.hook, err = standardwebhooks.NewWebhook(secret); err != nil {
		t.Fatal(err)
	}
	id := s.made("many.csv", file.Bytes(), "processor", "enrich")
	killed := s.killSenders(r, func() bool { return ended(s.job(id)) })
	s.sound()
	for no, status := range s.statuses(id) {
		if want := finalOf(all[no]); status != want {
			t.Errorf("row %d of plan %v is %s, want %s", no, all[no], status, want)
		}
	}
	again := 0
	for _, n := range to.calls {
		again += n - 1
	}
	t.Logf("killed %d times, %d requests were sent again, at most %d at a time", killed, again, to.most)
	if j := s.job(id); j.State != schema.Done || j.Processed() != rows {
		t.Errorf("%s, %v", j.State, j.Counts)
	}
}

// killSenders has processes send items, and kills them, until all is over. It returns how often.
func (s *shop) killSenders(r *rand.Rand, over func() bool) (killed int) {
	s.t.Helper()
	var cmd *exec.Cmd
	end := func() {
		if cmd != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			cmd = nil
		}
	}
	defer end()
	for deadline := time.Now().Add(4 * time.Minute); !over(); {
		if time.Now().After(deadline) {
			s.t.Fatalf("it does not end: %s", s.state())
		}
		if cmd == nil {
			cmd = exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "MILLRACE_TEST_SENDER="+s.dsn, "MILLRACE_TEST_NATS="+s.nc.ConnectedUrl())
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				s.t.Fatal(err)
			}
		}
		for range 20 {
			time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond) // the history goes on meanwhile
			s.sound()
		}
		if killed < 3 && r.IntN(2) == 0 { // and a row has an attempt left in any case
			end()
			killed++
		}
	}
	return killed
}

// TestWebhookSettings: admins alone set webhooks, a secret is told once, and an address in a private network is none.
func TestWebhookSettings(t *testing.T) {
	t.Parallel()
	s := openHooked(t, auth.Config{Secret: secret})
	path := "/api/v1/queues/enrich/webhook"
	put := func(body string) (int, string) {
		t.Helper()
		return s.send(http.MethodPut, path, "application/json", bytes.NewReader([]byte(body)))
	}
	refused := func(body, field string) {
		t.Helper()
		if status, text := put(body); status != 400 || !bytes.Contains([]byte(text), []byte(`"field":"`+field+`"`)) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	s.token("ann", auth.Work, auth.Uploads, auth.Read)
	for _, method := range []string{http.MethodPut, http.MethodGet, http.MethodDelete} {
		if status, text := s.send(method, path, "application/json", bytes.NewReader([]byte(`{"url":"http://127.0.0.1/"}`))); status != 403 {
			t.Errorf("%s for a worker: %d %s", method, status, text)
		}
	}
	s.token("boss", auth.Admin)
	first := s.hook("http://127.0.0.1:1/in", 5, 2)
	if _, rule := webhooks.ParseSecret(first); rule != "" {
		t.Errorf("the secret %q: %s", first, rule)
	}
	if again := s.hook("http://127.0.0.1:2/in", 5, 2); again != "" {
		t.Errorf("the secret is told again: %s", again)
	}
	if status, text := s.send(http.MethodGet, path, "", nil); status != 200 || bytes.Contains([]byte(text), []byte("secret")) {
		t.Errorf("%d %s", status, text)
	}
	kept := func() string {
		v, err := webhooks.NewStore(s.pool)
		if err != nil {
			t.Fatal(err)
		}
		w, err := v.Get(t.Context(), s.q)
		if err != nil {
			t.Fatal(err)
		}
		return webhooks.SecretText(w.Secret)
	}
	if kept() != first {
		t.Error("another address has another secret")
	}
	own := webhooks.SecretText(webhooks.NewSecret())
	if status, text := put(`{"url":"http://127.0.0.1:2/in","secret":"` + own + `"}`); status != 200 || kept() != own ||
		bytes.Contains([]byte(text), []byte("whsec_")) {
		t.Errorf("%d %s", status, text)
	}
	refused(`{"url":"http://127.0.0.1/","secret":"weak"}`, "secret")
	refused(`{"url":"http://10.0.0.1/"}`, "url")
	refused(`{"url":"http://[::ffff:10.0.0.1]/"}`, "url")
	refused(`{"url":"http://ann:pw@shop.example/"}`, "url")
	if status, _ := put(`{"url":"http://127.0.0.1/","timeout_s":301}`); status != 400 {
		t.Errorf("a timeout that is too long: %d", status)
	}
	if status, _ := s.send(http.MethodPut, "/api/v1/queues/none/webhook", "application/json",
		bytes.NewReader([]byte(`{"url":"http://127.0.0.1/"}`))); status != 404 {
		t.Errorf("a queue that is not there: %d", status)
	}
	for _, want := range []int{204, 404} {
		if status, text := s.send(http.MethodDelete, path, "", nil); status != want {
			t.Errorf("delete: %d %s", status, text)
		}
	}
	s.hook("http://127.0.0.1:1/in", 5, 2)
	if _, err := s.own.Delete(t.Context(), "enrich", false); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM millrace.webhook").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d webhooks of a queue that is gone, %v", left, err)
	}
}

// TestWebhookClock: a host that has asked for a while is sent nothing for no longer, although the clock of Postgres was set back.
func TestWebhookClock(t *testing.T) {
	t.Parallel()
	s := openHooked(t, auth.Config{})
	store, err := webhooks.NewStore(s.pool)
	if err != nil {
		t.Fatal(err)
	}
	const host, wait = "shop.example:443", time.Minute
	looks := func(what string) {
		t.Helper()
		if all, err := store.Deferred(t.Context()); err != nil || all[host] <= 0 || all[host] > wait {
			t.Errorf("%s: %v, %v", what, all, err)
		}
	}
	if err := store.Defer(t.Context(), host, wait); err != nil {
		t.Fatal(err)
	}
	looks("asked for")
	if _, err := s.pool.Exec(t.Context(), "UPDATE millrace.webhook_host SET until_at = until_at + interval '2 hours'"); err != nil {
		t.Fatal(err)
	}
	looks("the clock was set back")
	var left float64
	if err := s.pool.QueryRow(t.Context(), "SELECT extract(epoch FROM until_at - now())::float8 FROM millrace.webhook_host").
		Scan(&left); err != nil || left > wait.Seconds() {
		t.Errorf("%v s are left, %v", left, err)
	}
}

// TestWebhookItems: items that are no rows of uploads are sent, too. What a host has asked of another process is obeyed.
func TestWebhookItems(t *testing.T) {
	t.Parallel()
	s := openHooked(t, auth.Config{})
	var until time.Time
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if time.Now().Before(until) {
			t.Error("a request comes before the time that the host has asked for")
		}
		var c webhooks.Call
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			t.Error(err)
		}
		switch c.Key {
		case "missing":
			w.WriteHeader(http.StatusNotFound)
		case "large":
			_, _ = fmt.Fprintf(w, `{"x":"%070000d"}`, 1)
		case "later":
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = fmt.Fprintf(w, `{"got":%s}`, c.Payload)
		}
	}))
	defer web.Close()
	s.hook(web.URL, 10, 4)
	if _, err := s.own.Enqueue(t.Context(), "enrich", []userqueue.EnqueueItem{
		{Key: "fine", Payload: json.RawMessage(`{"to":"ann"}`)}, {Key: "missing"}, {Key: "large"}, {Key: "later"},
	}); err != nil {
		t.Fatal(err)
	}
	store, err := webhooks.NewStore(s.pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Defer(t.Context(), web.Listener.Addr().String(), 1500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := s.pool.QueryRow(t.Context(), "SELECT until_at FROM millrace.webhook_host").Scan(&until); err != nil {
		t.Fatal(err)
	}
	until = until.Add(-time.Millisecond) // what the database rounds
	r, err := sends(s.pool, s.own, s.nc, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	embeddedtest.Go(t, r.Run)
	want := map[string]string{"fine": "done", "missing": "failed", "large": "failed", "later": "scheduled"}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		items, err := s.own.Items(t.Context(), userqueue.Page{Queue: s.q, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, it := range items {
			got[it.Key] = it.State
			if it.Key == "fine" && it.State == "done" && string(it.Result) != `{"got":{"to":"ann"}}` {
				t.Errorf("the result is %s", it.Result)
			}
			if it.Key == "large" && it.State == "failed" && it.Error != "the webhook's answer: result must be at most 65536 bytes of JSON" {
				t.Errorf("the error is %s", it.Error)
			}
		}
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
