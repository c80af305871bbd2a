package uploads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/httpapi/contracttest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

const secret = "0123456789abcdef0123456789abcdef"

type site struct {
	t      *testing.T
	pool   *pgxpool.Pool
	store  *uploads.Store
	files  *uploads.Files
	js     jetstream.JetStream
	url    string
	client *http.Client
	bearer string
}

func serve(t *testing.T, cfg auth.Config) *site {
	t.Helper()
	s := &site{t: t, pool: engine.Pool(t, queue.Configure)}
	var err error
	if s.store, err = uploads.New(s.pool, uploads.Limits{}, uploads.Attempts{}); err != nil {
		t.Fatal(err)
	}
	s.js = natstest.Start(t, stream.Config{}).JetStream()
	s.files = uploads.NewFiles(objects.NewNATS(s.js, 1))
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: embeddedtest.Log(t), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Temp: t.TempDir(), Pending: true}, Deps{
		Store: s.store, Files: s.files, Auth: auth.New(cfg), Registry: prometheus.NewRegistry(), Log: embeddedtest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Register(endpoint.API{Server: srv, Auth: h.Auth, Log: h.Log})
	hub, err := live.New(live.Config{}, []live.View{h.View()}, prometheus.NewRegistry(), embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	hub.Register(srv, auth.New(cfg))
	srv.Also("/api/jobs", "/uploads")
	srv.Also("/api/pending", "/pending")
	// Every answer is held to the description.
	s.client = &http.Client{Transport: contracttest.Of(t, srv.Handler()).Transport(http.DefaultTransport,
		func(err error) { t.Error(err) })}
	web := httptest.NewServer(srv.Handler())
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

// fill makes an upload of a file, with its rows persisted in batches, and a mapping.
func (s *site) fill(subject, name, file string, mapping map[string]string) uploads.Job {
	s.t.Helper()
	ctx := s.t.Context()
	id, err := s.store.Begin(ctx, subject, "127.0.0.1", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	var sniff tabular.Sniffer
	stored, err := s.files.Put(ctx, id, 1<<30, io.TeeReader(strings.NewReader(file), &sniff))
	if err != nil {
		s.t.Fatal(err)
	}
	format, err := sniff.Sniff(name, "", "", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.store.Complete(ctx, id, uploads.Received{
		Name: name, FileName: name, Processor: schema.Copy, Mapping: mapping, Format: format, Size: stored.Size,
		SHA256: stored.SHA256[:],
	}); err != nil {
		s.t.Fatal(err)
	}
	j, err := s.store.Get(ctx, uploads.Viewer{All: true}, id)
	if err != nil {
		s.t.Fatal(err)
	}
	if j, err = s.store.Start(ctx, j.No); err != nil {
		s.t.Fatal(err)
	}
	rows, err := s.files.Rows(ctx, j, format, s.t.TempDir(), 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	if rows.Header() != nil {
		if err := s.store.Describe(ctx, j, rows.Header()); err != nil {
			s.t.Fatal(err)
		}
	}
	b := uploads.Rows{}
	flush := func() {
		if err := s.store.Append(ctx, j, b); err != nil {
			s.t.Fatal(err)
		}
		b = uploads.Rows{After: b.Upto, Upto: b.Upto}
	}
	for row, err := rows.Next(); err == nil; row, err = rows.Next() {
		b.Upto = int32(row.No)
		switch {
		case row.Fault != nil:
			b.Rejects = append(b.Rejects, uploads.Reject{
				No: b.Upto, Line: row.Line, Code: row.Fault.Code, Error: row.Fault.Text, Content: bytes.Clone(row.Raw),
			})
		case row.Object != nil:
			b.Items = append(b.Items, uploads.Input{No: b.Upto, JSON: bytes.Clone(row.Object)})
		default:
			cells, _ := json.Marshal(row.Cells)
			b.Items = append(b.Items, uploads.Input{No: b.Upto, JSON: cells})
		}
		if b.Upto-b.After == 100 {
			flush()
		}
	}
	flush()
	if err := s.store.EndRead(ctx, j, b.Upto, 0); err != nil {
		s.t.Fatal(err)
	}
	return j
}

func (s *site) token(sub string, scopes ...auth.Scope) {
	s.t.Helper()
	var err error
	if s.bearer, err = auth.Mint(secret, sub, scopes, time.Hour); err != nil {
		s.t.Fatal(err)
	}
}

// get asks, and returns the status and the answer's text.
func (s *site) get(path string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
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

func read[T any](s *site, path string) (out T) {
	s.t.Helper()
	status, text := s.get(path)
	if err := json.Unmarshal([]byte(text), &out); err != nil || status != http.StatusOK {
		s.t.Fatalf("%s: %d %s, %v", path, status, text, err)
	}
	return out
}

// walk returns all items, page by page.
func (s *site) walk(path string) (all []UploadItem) {
	s.t.Helper()
	for after := ""; ; {
		page := read[UploadItemPage](s, path+after)
		all = append(all, page.Items...)
		if page.Next == "" {
			return all
		}
		after = "&after=" + url.QueryEscape(page.Next)
	}
}

func table(rows int) string {
	var out strings.Builder
	out.WriteString("sku,title,price\n")
	for i := range rows {
		fmt.Fprintf(&out, "%d,product %d,%d\n", i+1, i+1, i%7)
	}
	return out.String()
}

// scatter gives items random statuses and times, many of them alike, as many changes would.
func (s *site) scatter(j uploads.Job, rnd *rand.Rand) {
	s.t.Helper()
	for range 60 {
		var rows []int32
		for range 100 {
			rows = append(rows, 1+rnd.Int32N(2000))
		}
		if _, err := s.pool.Exec(s.t.Context(), `UPDATE millrace.upload_item SET status = $2, version = version + 1,
			updated_at = (SELECT max(updated_at) + interval '1 microsecond' FROM millrace.upload_item WHERE job_no = $1)
			WHERE job_no = $1 AND row_no = ANY($3)`, j.No, rnd.IntN(6), rows); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.pool.Exec(s.t.Context(), `UPDATE millrace.upload SET (pending, processing, done, error, not_found, skipped) =
		(SELECT count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2),
		count(*) FILTER (WHERE status = 3), count(*) FILTER (WHERE status = 4), count(*) FILTER (WHERE status = 5)
		FROM millrace.upload_item WHERE job_no = $1) WHERE no = $1`, j.No); err != nil {
		s.t.Fatal(err)
	}
}

// TestItems: pages by either order and any statuses have each item once, as a plain query has them.
func TestItems(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	s := serve(t, auth.Config{})
	j := s.fill("", "x.csv", table(2000), map[string]string{"title": "title", "brand": "nothing", "sku": "sku"})
	s.fill("", "other.csv", table(50), nil)
	s.scatter(j, rnd)
	base := "/api/v1/uploads/" + j.ID.String() + "/items?"
	for range 30 {
		byRow, size := rnd.IntN(2) == 0, 1+rnd.IntN(300)
		var names []string
		for _, name := range schema.Statuses {
			if rnd.IntN(2) == 0 {
				names = append(names, name)
			}
		}
		list := strings.Join(names, ",")
		sort, order := "updated_at", "updated_at, row_no"
		if byRow {
			sort, order = "row_no", "row_no"
		}
		statuses, _ := schema.ParseStatuses(list)
		numbers := []int16{}
		for _, of := range statuses {
			numbers = append(numbers, int16(of))
		}
		rows, err := s.pool.Query(t.Context(), `SELECT row_no FROM millrace.upload_item WHERE job_no = $1
			AND status = ANY($2) ORDER BY `+order, j.No, numbers)
		if err != nil {
			t.Fatal(err)
		}
		var want []int32
		for rows.Next() {
			var n int32
			if err := rows.Scan(&n); err != nil {
				t.Fatal(err)
			}
			want = append(want, n)
		}
		var got []int32
		for _, item := range s.walk(fmt.Sprintf("%sstatuses=%s&sort=%s&pageSize=%d", base, list, sort, size)) {
			got = append(got, item.RowNo)
			if n := item.RowNo; (item.Result == nil || string(item.Result) == "null") != (item.Status != "DONE") ||
				item.InputSummary["title"] != fmt.Sprint("product ", n) || item.InputSummary["sku"] != fmt.Sprint(n) ||
				len(item.InputSummary) != 2 || item.ID != fmt.Sprintf("%s-%d", j.ID, n) {
				t.Fatalf("%+v", item)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: statuses %q, %s, %d a page: %d items, want %d", seed, list, sort, size, len(got), len(want))
		}
		for page := 1; page*size <= 2000 && page < 4; page++ {
			var paged []int32
			for _, item := range read[UploadItemPage](s, fmt.Sprintf("%sstatuses=%s&sort=%s&pageSize=%d&page=%d", base, list, sort,
				size, page)).Items {
				paged = append(paged, item.RowNo)
			}
			if end := min(page*size, len(want)); !slices.Equal(paged, want[min((page-1)*size, end):end]) {
				t.Fatalf("seed %d: page %d of %d: %v", seed, page, size, paged)
			}
		}
	}
	one := read[UploadItemPage](s, base+"status=DONE&pageSize=1").Items[0]
	want := fmt.Sprintf(`{"sku":"%d","title":"product %[1]d","price":"%d"}`, one.RowNo, (one.RowNo-1)%7)
	if string(one.Result) != want {
		t.Errorf("%s, want %s", one.Result, want)
	}
}

// TestItemParameters: what a request breaks is named.
func TestItemParameters(t *testing.T) {
	s := serve(t, auth.Config{})
	j, other := s.fill("", "x.csv", table(20), nil), s.fill("", "y.csv", table(20), nil)
	base := "/api/jobs/" + j.ID.String() + "/items?"
	byTime := read[UploadItemPage](s, base+"sort=updated_at&pageSize=5").Next
	byRow := read[UploadItemPage](s, "/api/jobs/"+other.ID.String()+"/items?pageSize=5").Next
	for query, want := range map[string]string{
		"sort=status": "sort", "sort=-row_no": "sort", "statuses=NEW": "statuses", "status=done": "status", "pageSize=0": "pageSize",
		"pageSize=1001": "pageSize", "page=0": "page", "page=101&pageSize=100": "page", "offset=10": "offset", "after=x": "after",
		"after=" + byTime: "after", "sort=updated_at&after=" + byRow: "after", "after=" + byRow: "after",
		"page=2&after=" + byTime + "&sort=updated_at": "page", "status=DONE&statuses=DONE": "status", "limit=5": "limit",
	} {
		status, text := s.get(base + query)
		var p httpapi.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil || status != 400 || len(p.Errors) != 1 || p.Errors[0].Field != want {
			t.Errorf("%s: %d %s, want %s", query, status, text, want)
		}
	}
	if page := read[UploadItemPage](s, base+"page=100&pageSize=100"); len(page.Items) != 0 || page.Next != "" {
		t.Errorf("%+v", page)
	}
}

// TestWalkWhileMoving: a walk by (updated_at, id) while items move shows each item, and the newest version
// of each in the end.
func TestWalkWhileMoving(t *testing.T) {
	s := serve(t, auth.Config{})
	const rows = 3000
	j := s.fill("", "x.csv", table(rows), nil)
	var moving sync.WaitGroup
	for range 3 {
		moving.Go(func() {
			for {
				moved, err := s.store.Move(t.Context(), j, schema.StatusDone, 0, 1+rand.IntN(20))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if moved.Items == 0 {
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { moving.Wait(); close(ended) }()
	seen := map[int32]int32{}
	base := "/api/v1/uploads/" + j.ID.String() + "/items?sort=updated_at&pageSize=100"
	for after, still := "", true; ; {
		last := !still
		page := read[UploadItemPage](s, base+after)
		for _, item := range page.Items {
			seen[item.RowNo] = max(seen[item.RowNo], item.Version)
		}
		if n := len(page.Items); n > 0 { // go on behind the last item, also of the last page
			end := page.Items[n-1]
			after = "&after=" + url.QueryEscape(schema.Cursor{At: end.UpdatedAt, Job: end.JobID, Row: int64(end.RowNo)}.Encode())
		} else if last {
			break
		}
		select {
		case <-ended:
			still = false
		default:
		}
	}
	if len(seen) != rows {
		t.Errorf("%d items were seen, of %d", len(seen), rows)
	}
	old := 0
	for _, version := range seen {
		if version != 2 {
			old++
		}
	}
	if old > 0 {
		t.Errorf("the newest version of %d items was missed", old)
	}
}

// TestOwners: a user finds nothing of another's uploads, and admins see all.
func TestOwners(t *testing.T) {
	s := serve(t, auth.Config{Secret: secret})
	ann, ben := s.fill("ann", "a.csv", table(3)+"broken\n", nil), s.fill("ben", "b.csv", table(3), nil)
	paths := []string{"", "/items", "/rejected", "/rejected/file", "/preview", "/file", "/export"}
	for _, c := range []struct {
		sub   string
		scope auth.Scope
		sees  []uploads.Job
		none  int
	}{
		{"ann", auth.Uploads, []uploads.Job{ann}, 404},
		{"ben", auth.Work, []uploads.Job{ben}, 404},
		{"eve", auth.Uploads, nil, 404},
		{"", auth.Uploads, nil, 404},
		{"root", auth.Admin, []uploads.Job{ann, ben}, 404},
		{"ann", auth.Read, nil, 403},
	} {
		s.token(c.sub, c.scope)
		for _, j := range []uploads.Job{ann, ben} {
			want := c.none
			if slices.ContainsFunc(c.sees, func(of uploads.Job) bool { return of.ID == j.ID }) {
				want = 200
			}
			for _, path := range paths {
				if status, text := s.get("/api/v1/uploads/" + j.ID.String() + path); status != want {
					t.Errorf("%s %s asks for %s of %s: %d %s", c.sub, c.scope, path, j.Owner, status, text)
				}
			}
		}
		if c.none == 403 {
			continue
		}
		for query, want := range map[string]int{"": len(c.sees), "?user=ann": 0, "?user=ann&queue_state=DONE": 0} {
			if query == "?user=ann" && slices.ContainsFunc(c.sees, func(of uploads.Job) bool { return of.ID == ann.ID }) {
				want = 1
			}
			if page := read[UploadPage](s, "/api/jobs"+query); len(page.Items) != want {
				t.Errorf("%s lists %q: %+v", c.sub, query, page.Items)
			}
		}
	}
	s.token("eve", auth.Uploads)
	for _, id := range []string{uuid.NewString(), "x", strings.ToUpper(ann.ID.String())} {
		if status, text := s.get("/api/v1/uploads/" + id); status != 404 {
			t.Errorf("%s: %d %s", id, status, text)
		}
	}
}

// TestList: pages have each upload once, the newest first.
func TestList(t *testing.T) {
	s := serve(t, auth.Config{})
	var want, got []string
	for range 7 {
		want = append([]string{s.fill("", "x.csv", table(1), nil).ID.String()}, want...)
	}
	for cursor := ""; ; {
		page := read[UploadPage](s, "/api/v1/uploads?limit=3"+cursor)
		for _, u := range page.Items {
			got = append(got, u.JobID)
		}
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if status, text := s.get("/api/v1/uploads?cursor=x"); status != 400 {
		t.Errorf("%d %s", status, text)
	}
	u := read[uploadsapi.Upload](s, "/api/v1/uploads/"+want[0])
	if u.QueueState != schema.Running || u.TotalItems != 1 || !u.Persisted || u.Statuses.Pending != 1 {
		t.Errorf("%+v", u)
	}
}

// TestRejectedPreviewFile: rejected rows as pages, the first rows in another encoding, and the file as it was.
func TestRejectedPreviewFile(t *testing.T) {
	s := serve(t, auth.Config{})
	file := "a;b\n1,5;caf\xe9\n" + strings.Repeat("x\n", 150) + "\xff;\x00\n"
	j := s.fill("", "x.csv", file, nil)
	base := "/api/v1/uploads/" + j.ID.String()
	var rows []RejectedRow
	for cursor := ""; ; {
		page := read[RejectedRowPage](s, base+"/rejected?limit=60"+cursor)
		rows = append(rows, page.Items...)
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	if len(rows) != 151 || rows[0].RowNo != 2 || rows[0].Line != 3 || rows[0].Code != "cells_count" || *rows[0].Text != "x\n" ||
		rows[150].Code != "nul" || rows[150].Line != 153 {
		t.Errorf("%d rows: %+v", len(rows), rows)
	}
	status, text := s.get(base + "/rejected/file?format=csv")
	if lines := strings.Split(text, "\r\n"); status != 200 || len(lines) != 153 || lines[0] != "row_no,line,code,error,text,bytes" ||
		lines[1] != "2,3,cells_count,\"the row has 1 cells, and the header has 2\",\"x\n\"," {
		t.Errorf("%d, %d lines: %q", status, len(lines), lines[:3])
	}
	if status, text := s.get(base + "/rejected/file?format=pdf"); status != 400 {
		t.Errorf("%d %s", status, text)
	}
	p := read[UploadPreview](s, base+"/preview")
	if p.Encoding != "windows-1252" || p.Delimiter != ";" || !slices.Equal(p.Header, []string{"a", "b"}) || len(p.Rows) != 50 ||
		!slices.Equal(p.Rows[0].Cells, []string{"1,5", "café"}) || p.Rows[1].Error == "" {
		t.Errorf("%+v", p)
	}
	p = read[UploadPreview](s, base+"/preview?encoding=koi8-r&delimiter=,")
	if p.Encoding != "koi8-r" || p.Delimiter != "," || !slices.Equal(p.Header, []string{"a;b"}) {
		t.Errorf("%+v", p)
	}
	if status, text := s.get(base + "/preview?encoding=klingon"); status != 400 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := s.get(base + "/file"); status != 200 || text != file {
		t.Errorf("%d, %d bytes", status, len(text))
	}
	lines := s.fill("", "x.ndjson", "{\"b\":1,\"a\":{\"c\":[\"<é>\"]},\"sku\":7}\n7\n", nil)
	lp := read[UploadPreview](s, "/api/v1/uploads/"+lines.ID.String()+"/preview")
	if object, _ := json.Marshal(lp.Rows[0].Object); string(object) != `{"a":{"c":["\u003cé\u003e"]},"b":1,"sku":7}` || lp.Rows[1].Error == "" {
		t.Errorf("%+v", lp)
	}
	if _, err := s.store.Move(t.Context(), lines, schema.StatusDone, 0, 10); err != nil {
		t.Fatal(err)
	}
	item := read[UploadItemPage](s, "/api/v1/uploads/"+lines.ID.String()+"/items").Items[0]
	var same any
	if json.Unmarshal(item.Result, &same); fmt.Sprint(same) != "map[a:map[c:[<é>]] b:1 sku:7]" {
		t.Errorf("%s", item.Result)
	}
	if fmt.Sprint(item.InputSummary) != "map[sku:7]" {
		t.Errorf("%q", item.InputSummary)
	}
}

// TestFreshUpload: a page reads the rows that it shows, and not all of its upload's, and an export reads each once, also
// before Postgres has statistics of these.
func TestFreshUpload(t *testing.T) {
	s := serve(t, auth.Config{})
	ctx := t.Context()
	exec := func(sql string) {
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`ALTER TABLE millrace.upload_item SET (autovacuum_enabled = off); ALTER TABLE millrace.upload_row SET (autovacuum_enabled = off)`)
	file := "no,name\n"
	for no := range 5000 {
		file += fmt.Sprintf("%d,row\n", no)
	}
	s.fill("", "known.csv", file, nil)
	exec("ANALYZE millrace.upload_item, millrace.upload_row")
	j := s.fill("", "fresh.csv", file, nil)

	cfg := s.pool.Config() // a copy
	cfg.MaxConns = 1       // what a connection has read is told by itself
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := uploads.New(pool, uploads.Limits{}, uploads.Attempts{})
	if err != nil {
		t.Fatal(err)
	}
	read := func() (n int) {
		if _, err := pool.Exec(ctx, "SELECT pg_stat_force_next_flush()"); err != nil {
			t.Fatal(err)
		}
		if err := pool.QueryRow(ctx, `SELECT sum(idx_tup_fetch + seq_tup_read)::integer FROM pg_stat_user_tables
			WHERE relname IN ('upload_item', 'upload_row')`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	statuses, err := schema.ParseStatuses("PENDING,PROCESSING,DONE,ERROR,NOT_FOUND,SKIPPED")
	if err != nil {
		t.Fatal(err)
	}
	const size = 50
	for _, byRow := range []bool{true, false} {
		before := read()
		page, _, err := store.Items(ctx, j, uploads.ItemsQuery{
			Statuses: statuses, ByRow: byRow, After: schema.Cursor{Job: j.ID.String(), Row: 4000}, Limit: size,
		})
		if err != nil || len(page) != size {
			t.Fatal(len(page), err)
		}
		if n := read() - before; n < size || n > 4*size {
			t.Errorf("by row %v: a page of %d items has read %d rows", byRow, size, n)
		}
	}
	exec("UPDATE millrace.upload_item SET status = 2")
	before := read()
	results, err := store.Results(ctx, uploads.Viewer{All: true}, j.ID, uploads.MaxColumns)
	if err != nil {
		t.Fatal(err)
	}
	all, more := 0, true
	for more {
		var page []uploads.Result
		if page, more, err = results.Next(); err != nil {
			t.Fatal(err)
		}
		all += len(page)
	}
	results.Close()
	if n := read() - before; all != 5000 || n < 2*all || n > 4*all {
		t.Errorf("an export of %d rows has read %d", all, n)
	}
}
