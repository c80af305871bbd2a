package uploads

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/httpapi/contracttest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) {
	if dsn := os.Getenv("MILLRACE_TEST_RUNNER"); dsn != "" {
		if err := runAlone(dsn, os.Getenv("MILLRACE_TEST_NATS")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dsn := os.Getenv("MILLRACE_TEST_WATCHER"); dsn != "" {
		if err := watchAlone(dsn, os.Getenv("MILLRACE_TEST_NATS"), os.Getenv("MILLRACE_TEST_S3")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dsn := os.Getenv("MILLRACE_TEST_TUS"); dsn != "" {
		fmt.Fprintln(os.Stderr, tusAlone(dsn, os.Getenv("MILLRACE_TEST_NATS")))
		os.Exit(1)
	}
	if dsn := os.Getenv("MILLRACE_TEST_SENDER"); dsn != "" {
		if err := sendAlone(dsn, os.Getenv("MILLRACE_TEST_NATS")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(engine.Main(m))
}

// runAlone runs a runner in a process of its own, until it is killed.
func runAlone(dsn, url string) error {
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
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	store, err := uploads.New(pool, uploads.Limits{}, uploads.Attempts{})
	if err != nil {
		return err
	}
	feed, _, err := feeder(store, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	r, err := NewRunner(RunnerConfig{Bounds: schema.Bounds{MinRows: 10, MaxRows: 100}}, store,
		uploads.NewFiles(objects.NewNATS(js, 1)), feed, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	go func() { _ = feed.Run(context.Background()) }() // it returns no errors
	return r.Run(context.Background())
}

// feeder makes the feeder of a store, with its queues; nil: they are made. Rows that were not found wait for no time.
func feeder(store *uploads.Store, queues *queue.Store, log *slog.Logger) (*uploads.Feeder, *userqueue.Store, error) {
	if queues == nil {
		var err error
		queues, err = queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, store.Pool(), log)
		if err != nil {
			return nil, nil, err
		}
	}
	own, err := userqueue.New(queues)
	if err != nil {
		return nil, nil, err
	}
	feed, err := uploads.NewFeeder(uploads.FeederConfig{
		Pace: schema.Pace{Target: time.Second, Min: 8, Max: 60}, NotFoundWait: time.Millisecond,
	}, store, own, log)
	return feed, own, err
}

type site struct {
	t     *testing.T
	dsn   string
	pool  *pgxpool.Pool
	nats  *natstest.Server
	js    jetstream.JetStream
	store *uploads.Store
	files *uploads.Files
	feed  *uploads.Feeder
	own   *userqueue.Store
	srv   *httpapi.Server
	auth  *auth.Auth

	handler *Handler
	url     string
	client  *http.Client
	bearer  string
}

const secret = "0123456789abcdef0123456789abcdef"

func serve(t *testing.T, cfg auth.Config, limits uploads.Limits) *site {
	t.Helper()
	return serveOn(t, engine.Pool(t, queue.Configure), nil, cfg, limits)
}

// serveOn serves on a database, with its queues; nil: they are made.
func serveOn(t *testing.T, pool *pgxpool.Pool, queues *queue.Store, cfg auth.Config, limits uploads.Limits) *site {
	t.Helper()
	s := &site{t: t, pool: pool, dsn: pool.Config().ConnString(), nats: natstest.Start(t, stream.Config{})}
	var err error
	s.js = s.nats.JetStream()
	if s.store, err = uploads.New(s.pool, limits, uploads.Attempts{}); err != nil {
		t.Fatal(err)
	}
	s.files = uploads.NewFiles(objects.NewNATS(s.js, 1))
	log := embeddedtest.Log(t)
	if s.feed, s.own, err = feeder(s.store, queues, log); err != nil {
		t.Fatal(err)
	}
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	s.srv, s.auth = srv, auth.New(cfg)
	h, err := New(schema.Bounds{MinRows: 1, MaxRows: 50}, s.store, s.files, s.feed, s.auth, log)
	if err != nil {
		t.Fatal(err)
	}
	s.handler = h
	h.Register(endpoint.API{Server: srv, Auth: s.auth, Log: log})
	srv.Also("/api/jobs", "/uploads")
	s.describe()
	web := httptest.NewServer(srv.Handler())
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

// describe has every answer held to the description of the routes that there are.
func (s *site) describe() {
	s.client = &http.Client{Transport: contracttest.Of(s.t, s.srv.Handler()).Transport(http.DefaultTransport,
		func(err error) { s.t.Error(err) })}
}

// run runs a runner until the test ends, or until the function that it returns is called.
func (s *site) run(bounds schema.Bounds) (stop func()) {
	s.t.Helper()
	return s.runAs(RunnerConfig{Bounds: bounds})
}

func (s *site) runAs(cfg RunnerConfig) (stop func()) {
	s.t.Helper()
	cfg.Temp = s.t.TempDir()
	r, err := NewRunner(cfg, s.store, s.files, s.feed, prometheus.NewRegistry(), embeddedtest.Log(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	return embeddedtest.Go(s.t, r.Run)
}

func (s *site) token(sub string, scopes ...auth.Scope) {
	s.t.Helper()
	var err error
	if s.bearer, err = auth.Mint(secret, sub, scopes, time.Hour); err != nil {
		s.t.Fatal(err)
	}
}

// send sends a request and returns the status and the answer's text.
func (s *site) send(method, path, contentType string, body io.Reader) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if s.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+s.bearer)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// upload sends a file with fields, and returns the status and the answer's text.
func (s *site) upload(path, name string, file []byte, fields ...string) (int, string) {
	s.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1])
	}
	if file != nil {
		part, err := w.CreateFormFile("file", name)
		if err != nil {
			s.t.Fatal(err)
		}
		_, _ = part.Write(file)
	}
	_ = w.Close()
	return s.send(http.MethodPost, path, w.FormDataContentType(), &body)
}

// made uploads a file and returns its id.
func (s *site) made(name string, file []byte, fields ...string) uuid.UUID {
	s.t.Helper()
	status, text := s.upload("/api/v1/uploads", name, file, fields...)
	var answer UploadReceived
	if status != http.StatusCreated || json.Unmarshal([]byte(text), &answer) != nil {
		s.t.Fatalf("%s: %d %s", name, status, text)
	}
	return uuid.MustParse(answer.JobID)
}

func (s *site) job(id uuid.UUID) uploads.Job {
	s.t.Helper()
	j, err := s.store.Get(context.Background(), uploads.Viewer{All: true}, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

// until waits for a job of which something is true.
func (s *site) until(id uuid.UUID, what string, is func(uploads.Job) bool) uploads.Job {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		j := s.job(id)
		if is(j) {
			return j
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not %s: %+v", what, j)
		}
	}
}

func ended(j uploads.Job) bool { return !schema.Open(j.State) }

// grid returns the results of a job in order, each as the texts of its columns.
func (s *site) grid(id uuid.UUID) (rows [][]string) {
	s.t.Helper()
	j := s.job(id)
	keys := uploadsapi.UploadOf(j).Columns
	statuses, _ := schema.ParseStatuses("")
	q := uploads.ItemsQuery{Statuses: statuses, ByRow: true, Limit: 1000}
	for {
		all, more, err := s.store.Items(s.t.Context(), j, q)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, item := range all {
			var of map[string]string
			if err := json.Unmarshal(item.Result, &of); err != nil || len(of) != len(keys) {
				s.t.Fatalf("row %d is %s: %s, %v", item.Row, item.Status, item.Result, err)
			}
			row := make([]string, len(keys))
			for i, key := range keys {
				row[i] = of[key]
			}
			rows = append(rows, row)
			q.After = schema.Cursor{Job: id.String(), Row: int64(item.Row)}
		}
		if !more {
			return rows
		}
	}
}

// same compares tables cell for cell.
func same(t *testing.T, what string, got, want [][]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Fatalf("%s: row %d is %q, want %q", what, i+1, got[i], want[i])
		}
	}
}

// sample is a table with whatever tends to be lost on the way.
func sample(rows int) (text string, want [][]string) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.UseCRLF = false
	_ = w.Write([]string{"ProductID", "ProductName", "Price", "Description"})
	for i := range rows {
		row := []string{
			fmt.Sprint(10_000_000 + i), "Bag\u00a0“large” – black", "€ 1.234,50", " two lines\nand a \"quote\"; a comma, a tab\t",
		}
		switch i % 4 {
		case 1:
			row[2], row[3] = "", "=1+1"
		case 2:
			row[3] = "'quoted' <b>&amp;</b> \\n"
		}
		_ = w.Write(row)
		want = append(want, row)
	}
	w.Flush()
	return out.String(), want
}

// TestCellForCell: a file of each encoding and delimiter comes out as it went in.
func TestCellForCell(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	s.run(schema.Bounds{})
	text, want := sample(300)
	utf16 := func(e unicode.Endianness, p unicode.BOMPolicy) []byte {
		out, err := unicode.UTF16(e, p).NewEncoder().Bytes([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	cp1252, err := charmap.Windows1252.NewEncoder().Bytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var semicolons bytes.Buffer
	w := csv.NewWriter(&semicolons)
	w.Comma = ';'
	table, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	_ = w.WriteAll(table)
	for name, c := range map[string]struct {
		file                []byte
		encoding, delimiter string
	}{
		"utf8":       {[]byte(text), "utf-8", ","},
		"mark":       {[]byte("\ufeff" + text), "utf-8", ","},
		"cp1252":     {cp1252, "windows-1252", ","},
		"utf16":      {utf16(unicode.LittleEndian, unicode.UseBOM), "utf-16le", ","},
		"utf16be":    {utf16(unicode.BigEndian, unicode.UseBOM), "utf-16be", ","},
		"no mark":    {utf16(unicode.LittleEndian, unicode.IgnoreBOM), "utf-16le", ","},
		"semicolons": {semicolons.Bytes(), "utf-8", ";"},
	} {
		id := s.made(name+".csv", c.file)
		j := s.until(id, "done", ended)
		if u := uploadsapi.UploadOf(j); u.QueueState != schema.Done || u.Encoding != c.encoding || u.Delimiter != c.delimiter ||
			u.TotalItems != 300 || u.Processed != 300 || u.RejectedRows != 0 || u.FailedItems != 0 || !u.Persisted {
			t.Errorf("%s: %+v", name, u)
		}
		same(t, name, s.grid(id), want)
		from, err := s.files.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := io.ReadAll(from)
		if err != nil || !bytes.Equal(kept, c.file) {
			t.Errorf("%s: the original file has %d bytes, %v, want %d", name, len(kept), err, len(c.file))
		}
		_ = from.Close()
	}
}

// TestRejected: a row that breaks a rule is kept with its line, and the others are items.
func TestRejected(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	s.run(schema.Bounds{MinRows: 1, MaxRows: 3})
	file := "\ufeffa,b\n1,2\n3\n4,\"5\n6\"\n7,\x00\n8,\xff\n" + "9," + strings.Repeat("x", 1<<20+1) + "\n10,11\n12,\"13\n14,15\n"
	id := s.made("x.csv", []byte(file))
	j := s.until(id, "done", ended)
	if u := uploadsapi.UploadOf(j); u.QueueState != schema.Done || u.TotalItems != 3 || u.RejectedRows != 5 || u.Processed != 3 {
		t.Errorf("%+v", u)
	}
	same(t, "items", s.grid(id), [][]string{{"1", "2"}, {"4", "5\n6"}, {"10", "11"}})
	rejects, err := s.store.Rejects(t.Context(), j, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rejects {
		got = append(got, fmt.Sprintf("%d on %d: %s %q", r.No, r.Line, r.Code, r.Content[:min(len(r.Content), 12)]))
	}
	want := []string{
		`2 on 3: cells_count "3\n"`, `4 on 6: nul "7,\x00\n"`, `5 on 7: undecodable "8,\xff\n"`,
		`6 on 8: cell_size "9,xxxxxxxxxx"`, `8 on 10: quote_unclosed "12,\"13\n14,15"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for name, file := range map[string]string{"empty.csv": "", "rejected.csv": "a,b\n1\n2\n", "x.xlsx": "PK\x03\x04nothing"} {
		j := s.until(s.made(name, []byte(file)), "failed", ended)
		if j.State != schema.Failed || j.LastError == nil {
			t.Errorf("%s: %s, %v", name, j.State, j.LastError)
		}
	}
	twice := s.made("twice.csv", []byte("a,a,\n1,2,3\n"))
	s.until(twice, "done", ended)
	if columns := uploadsapi.UploadOf(s.job(twice)).Columns; !slices.Equal(columns, []string{"a", "a_2", "column_3"}) {
		t.Errorf("columns %q", columns)
	}
	same(t, "headers alike", s.grid(twice), [][]string{{"1", "2", "3"}})
}

// TestFormRules: what a form breaks is told by field, and leaves nothing.
func TestFormRules(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{File: 1 << 20, Open: 2})
	file := []byte("a,b\n1,2\n")
	codes := func(text string) (all []string) {
		var p httpapi.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err, text)
		}
		for _, e := range p.Errors {
			all = append(all, e.Field+":"+e.Code)
		}
		return all
	}
	for i, c := range []struct {
		path   string
		file   []byte
		fields []string
		status int
		says   []string
	}{
		{"", nil, nil, 400, []string{"file:required"}},
		{"", file, []string{"processor", "mail", "colour", "red", "hold", "perhaps"}, 400, []string{"processor:processor", "colour:field_unknown", "hold:boolean"}},
		{"", file, []string{"encoding", "klingon", "delimiter", "xx"}, 400, []string{"encoding:encoding", "delimiter:delimiter"}},
		{"", file, []string{"mapping", "[1]"}, 400, []string{"mapping:mapping"}},
		{"", file, []string{"name", "x\x00y"}, 400, []string{"name:name"}},
		{"", file, []string{"processor", "x\x00y"}, 400, []string{"processor:processor"}},
		{"", file, []string{"processor", "x\xffy"}, 400, []string{"processor:processor"}},
		{"", file, []string{"format", "pdf"}, 400, []string{"format:format"}},
		{"", file, []string{"name", "a", "name", "b"}, 400, []string{"name:twice"}},
		{"?held=true", file, nil, 400, []string{"held:parameter_unknown"}},
		{"", []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 an old book"), nil, 400, []string{"file:format"}},
		{"", make([]byte, 1<<20+1), nil, 413, []string{":body_size"}},
		{"", make([]byte, 3<<20), nil, 413, []string{":body_size"}},
	} {
		if status, text := s.upload("/api/v1/uploads"+c.path, "x.csv", c.file, c.fields...); status != c.status ||
			!slices.Equal(codes(text), c.says) {
			t.Errorf("%d: %d %s, want %d %q", i, status, text, c.status, c.says)
		}
	}
	if status, text := s.send(http.MethodPost, "/api/v1/uploads", "text/csv", bytes.NewReader(file)); status != 415 {
		t.Errorf("%d %s", status, text)
	}
	for _, name := range []string{"x.xlsx", "X.XLSX"} {
		if status, text := s.upload("/api/v1/uploads", name, file); status != 400 || !slices.Equal(codes(text), []string{"file:format"}) {
			t.Errorf("text that is named %s: %d %s", name, status, text)
		}
	}
	half := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\na,b\r\n1"
	if status, text := s.send(http.MethodPost, "/api/v1/uploads", "multipart/form-data; boundary=x", strings.NewReader(half)); status != 400 {
		t.Errorf("%d %s", status, text)
	}
	s.run(schema.Bounds{}) // deletes what was given up
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var left, messages int
		if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM millrace.upload").Scan(&left); err != nil {
			t.Fatal(err)
		}
		if of, err := s.js.Stream(t.Context(), "OBJ__uploads"); err == nil {
			messages = int(of.CachedInfo().State.Msgs)
		}
		if left == 0 && messages == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d uploads and %d messages are left", left, messages)
		}
	}
}

// TestLimits: a user has so many uploads, bytes and rows, and others have theirs.
func TestLimits(t *testing.T) {
	s := serve(t, auth.Config{Secret: secret}, uploads.Limits{Open: 2, Bytes: 10_000, Rows: 20})
	s.token("ann", auth.Uploads)
	small := []byte("a,b\n1,2\n")
	one, _ := s.made("1.csv", small, "hold", "true"), s.made("2.csv", small, "hold", "true")
	if status, text := s.upload("/api/v1/uploads", "3.csv", small); status != 409 || !strings.Contains(text, "limit_open_uploads") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := s.send(http.MethodPost, "/api/v1/uploads/"+one.String()+"/cancel", "", nil); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	s.run(schema.Bounds{MinRows: 1, MaxRows: 4})
	s.until(one, "cancelled", ended)
	if status, text := s.upload("/api/v1/uploads", "3.csv", bytes.Repeat([]byte("x,y\n"), 2500)); status != 409 ||
		!strings.Contains(text, "limit_bytes") {
		t.Errorf("%d %s", status, text)
	}
	many := s.made("many.csv", []byte("a,b\n"+strings.Repeat("1,2\n", 50)))
	j := s.until(many, "paused", func(j uploads.Job) bool { return j.State == schema.Paused })
	if j.LastError == nil || !strings.Contains(*j.LastError, "20 rows") || j.ReadRows > 20 || j.ReadRows < 15 {
		t.Errorf("%d rows, %v", j.ReadRows, j.LastError)
	}
	s.token("ben", auth.Work)
	s.until(s.made("1.csv", small), "done", ended)
	s.token("", auth.Uploads)
	if status, text := s.upload("/api/v1/uploads", "1.csv", small); status != 403 {
		t.Errorf("without a user: %d %s", status, text)
	}
	s.token("ann", auth.Read)
	if status, text := s.upload("/api/v1/uploads", "1.csv", small); status != 403 {
		t.Errorf("with the scope read: %d %s", status, text)
	}
}

// TestControl: a held upload waits, is read in another way when it is resumed, pauses, and ends where it
// is cancelled. Others find nothing of it.
func TestControl(t *testing.T) {
	s := serve(t, auth.Config{Secret: secret}, uploads.Limits{})
	s.run(schema.Bounds{MinRows: 1, MaxRows: 2})
	s.token("ann", auth.Uploads)
	command := func(id uuid.UUID, what, body string, want int, state string) {
		t.Helper()
		status, text := s.send(http.MethodPost, "/api/jobs/"+id.String()+"/"+what, "application/json", strings.NewReader(body))
		var u uploadsapi.Upload
		if err := json.Unmarshal([]byte(text), &u); err != nil || status != want || state != "" && u.QueueState != state {
			t.Errorf("%s: %d %s, %v, want %d %s", what, status, text, err, want, state)
		}
	}
	status, text := s.upload("/api/jobs?hold=true", "x.csv", []byte("a;b\nx\xe4;1,2\n"), "encoding", "koi8-r", "delimiter", ",")
	var answer UploadReceived
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 201 || answer.QueueState != schema.Paused ||
		answer.Encoding != "koi8-r" {
		t.Fatal(status, text, err)
	}
	id := uuid.MustParse(answer.JobID)
	command(id, "pause", "", 200, schema.Paused)
	command(id, "resume", `{"encoding":"klingon"}`, 400, "")
	command(id, "resume", `{"encodings":"utf-8"}`, 400, "")
	command(id, "resume", `{"mapping":{"title":"b\u0000"}}`, 400, "")
	s.token("ben", auth.Uploads)
	command(id, "resume", "", 404, "")
	command(id, "cancel", "", 404, "")
	if status, text := s.send(http.MethodDelete, "/api/v1/uploads/"+id.String(), "", nil); status != 404 {
		t.Errorf("another's: %d %s", status, text)
	}
	s.token("root", auth.Admin)
	command(id, "pause", "", 200, schema.Paused)
	s.token("ann", auth.Uploads)
	command(id, "resume", `{"encoding":"cp1252","mapping":{"title":"b"}}`, 200, "")
	s.until(id, "done", ended)
	same(t, "resumed", s.grid(id), [][]string{{"xä", "1,2"}})
	command(id, "pause", "", 409, "")
	command(id, "resume", `{"mapping":{"title":"a"}}`, 409, "")
	if j := s.until(id, "done", ended); !maps.Equal(j.Mapping, map[string]string{"title": "b"}) {
		t.Errorf("mapping %v, want that of the resume that was not refused", j.Mapping)
	}
	command(id, "cancel", "", 409, "")
	// Cancelling leaves what is DONE as it is, and what is to be processed again as SKIPPED.
	_, want := sample(1)
	text, _ = sample(2000)
	id = s.made("many.csv", []byte(text))
	s.until(id, "begun", func(j uploads.Job) bool { return uploadsapi.UploadOf(j).Statuses.Done > 10 })
	command(id, "pause", "", 200, schema.Paused)
	if status, text := s.send(http.MethodPost, "/api/v1/uploads/"+id.String()+"/reprocess", "application/json",
		strings.NewReader(fmt.Sprintf(`{"scope":"items","itemIds":["%s-3","%[1]s-7"],"statuses":["DONE"]}`, id))); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	command(id, "cancel", "", 200, "")
	j := s.until(id, "cancelled", ended)
	if u := uploadsapi.UploadOf(j); u.QueueState != schema.Done || !u.Cancelled || u.Persisted || u.Statuses.Skipped != 2 ||
		u.Statuses.Skipped+u.Statuses.Done != u.TotalItems || u.TotalItems >= 2000 || len(want) != 1 {
		t.Errorf("%+v", u)
	}
	if status, text := s.send(http.MethodDelete, "/api/v1/uploads/"+id.String(), "", nil); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	command(id, "pause", "", 404, "")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var left int
		if err := s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM millrace.upload WHERE no = $1)
			+ (SELECT count(*) FROM millrace.upload_row WHERE job_no = $1)
			+ (SELECT count(*) FROM millrace.upload_item WHERE job_no = $1)`, j.No).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d rows are left of a deleted upload", left)
		}
	}
	if from, err := s.files.Open(t.Context(), id); !errors.Is(err, objects.ErrMissing) {
		t.Errorf("the file of a deleted upload: %v, %v", from, err)
	}
	var rows, bytes int64
	if err := s.pool.QueryRow(t.Context(), "SELECT rows, bytes FROM millrace.upload_owner WHERE subject = 'ann'").
		Scan(&rows, &bytes); err != nil || rows != 1 || bytes != 11 {
		t.Errorf("ann has %d rows of %d bytes, %v", rows, bytes, err)
	}
}

// TestKilled: a process is killed again and again while it persists and processes. Each row is there once,
// counters add up at every look, and the next process goes on at once (1, 2).
func TestKilled(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	text, want := sample(6000)
	text = strings.Replace(text, "\n10000042,", "\nbroken\n10000042,", 1)
	id := s.made("many.csv", []byte(text))
	begin := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "MILLRACE_TEST_RUNNER="+s.dsn, "MILLRACE_TEST_NATS="+s.nats.URL())
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	kill := func(cmd *exec.Cmd) { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	progress := func(j uploads.Job) int32 { return j.ReadRows + j.Processed() }
	for round, last := 0, int32(0); !ended(s.job(id)); round++ {
		cmd := begin()
		j := s.until(id, "further", func(j uploads.Job) bool {
			if j.ReadRows != j.Total()+j.Rejected { // the table holds it, too
				t.Errorf("%d rows are read, and %d are there", j.ReadRows, j.Total()+j.Rejected)
			}
			return progress(j) > last+1500 || ended(j)
		})
		kill(cmd)
		last = progress(j)
		if round > 50 {
			t.Fatal("it does not end")
		}
	}
	j := s.job(id)
	if u := uploadsapi.UploadOf(j); u.QueueState != schema.Done || u.TotalItems != 6000 || u.Processed != 6000 || u.RejectedRows != 1 ||
		u.Attempts < 3 {
		t.Errorf("%+v", u)
	}
	same(t, "after kills", s.grid(id), want)
	var versions int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM millrace.upload_item WHERE version <> 1 OR attempts <> 1").
		Scan(&versions); err != nil || versions != 0 {
		t.Errorf("%d items were processed more than once, %v", versions, err)
	}
}

// TestProducts takes a file of real products, in MILLRACE_TEST_PRODUCTS, in and out.
func TestProducts(t *testing.T) {
	path := os.Getenv("MILLRACE_TEST_PRODUCTS")
	if path == "" {
		t.Skip("MILLRACE_TEST_PRODUCTS names no CSV file in cp1252")
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := charmap.Windows1252.NewDecoder().Bytes(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, auth.Config{}, uploads.Limits{})
	s.run(schema.Bounds{})
	id := s.made("products.csv", file)
	j := s.until(id, "done", ended)
	if j.State != schema.Done || j.Format.Encoding != "windows-1252" || j.Rejected != 0 || !slices.Equal(j.Header, want[0]) {
		t.Errorf("%+v", j)
	}
	same(t, "products", s.grid(id), want[1:])
	t.Logf("%d rows, %.0f persisted and %.0f processed a second", len(want)-1, j.RowsSec, j.ItemsSec)
}

// TestKickoff: a slice processes what is there, says what it did, and ends the upload; one at a time.
func TestKickoff(t *testing.T) {
	s := serve(t, auth.Config{Secret: secret}, uploads.Limits{})
	s.token("ann", auth.Uploads)
	text, want := sample(500)
	id := s.made("x.csv", []byte(text))
	kick := func(query string) (int, UploadSlice) {
		t.Helper()
		status, text := s.send(http.MethodPost, "/api/jobs/"+id.String()+"/kickoff"+query, "", nil)
		var out UploadSlice
		_ = json.Unmarshal([]byte(text), &out)
		return status, out
	}
	// A process persists everything, and dies before it has processed again what it is to.
	j, err := s.store.Start(t.Context(), s.job(id).No)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRunner(RunnerConfig{Temp: t.TempDir()}, s.store, s.files, s.feed, prometheus.NewRegistry(), embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.persist(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if n, _, err := s.store.Reprocess(t.Context(), uploads.Viewer{All: true}, id,
		uploads.Reprocess{Statuses: []schema.Status{schema.StatusDone}}, time.Now().Add(time.Minute)); n != 500 || err != nil {
		t.Fatal(n, err)
	}
	for _, query := range []string{"?durationMs=0", "?durationMs=20001", "?duration=5"} {
		if status, out := kick(query); status != 400 {
			t.Errorf("%s: %d %+v", query, status, out)
		}
	}
	alone, err := s.store.Alone(t.Context(), j, func() error {
		if status, out := kick(""); status != 503 {
			t.Errorf("a second one: %d %+v", status, out)
		}
		return nil
	})
	if err != nil || !alone {
		t.Fatal(alone, err)
	}
	if status, out := kick("?durationMs=1"); status != 200 || out.Processed == 0 || out.Processed == 500 || out.QueueState != schema.Running ||
		int(out.Pending) != 500-out.Processed {
		t.Errorf("a short one: %d %+v", status, out)
	}
	if status, out := kick("?durationMs=20000"); status != 200 || out.QueueState != schema.Done || out.Pending != 0 {
		t.Errorf("a long one: %d %+v", status, out)
	}
	if status, out := kick(""); status != 200 || out.Processed != 0 {
		t.Errorf("of one that is done: %d %+v", status, out)
	}
	same(t, "after slices", s.grid(id), want)
	s.token("ben", auth.Uploads)
	if status, out := kick(""); status != 404 {
		t.Errorf("another's: %d %+v", status, out)
	}
}

// TestNATSAway: NATS ends and comes back while a file is read, and each row is there once. A file that is
// gone ends its upload.
func TestNATSAway(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	text, want := sample(20_000)
	id := s.made("x.csv", []byte(text))
	s.run(schema.Bounds{MinRows: 20, MaxRows: 20})
	s.until(id, "begun", func(j uploads.Job) bool { return j.ReadRows > 100 })
	s.nats.Stop()
	s.nats.Start()
	j := s.until(id, "done", ended)
	if j.State != schema.Done {
		t.Errorf("%s, %v", j.State, j.LastError)
	}
	same(t, "after NATS was away", s.grid(id), want)
	gone := s.made("y.csv", []byte(text), "hold", "true")
	if err := s.files.Remove(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if status, text := s.send(http.MethodPost, "/api/v1/uploads/"+gone.String()+"/resume", "", nil); status != 200 {
		t.Fatal(status, text)
	}
	if j := s.until(gone, "failed", ended); j.State != schema.Failed || j.LastError == nil {
		t.Errorf("%s, %v", j.State, j.LastError)
	}
}
