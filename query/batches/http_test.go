package batches

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/httpapi/contracttest"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/batches"
)

var (
	tables embeddedtest.Postgres
	rows   embeddedtest.ClickHouse
)

func TestMain(m *testing.M) { os.Exit(embeddedtest.Main(m, &tables, &rows)) }

// noon is when the first batch is read. It is of this year: older errors are removed.
var noon = time.Now().UTC().Truncate(24 * time.Hour).Add(-36 * time.Hour)

type site struct {
	t        testing.TB
	pool     *pgxpool.Pool
	conn     driver.Conn
	url      string
	contract *contracttest.Contract
	seq      int64
}

func serve(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, pool: tables.Pool(t)}
	var err error
	if s.conn, err = clickhouse.Open(rows.Database(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	h, err := New(Deps{
		Postgres: s.pool, ClickHouse: s.conn, Registry: prometheus.NewRegistry(),
		Log: embeddedtest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: embeddedtest.Log(t), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	h.Register(endpoint.API{Server: srv, Auth: auth.New(auth.Config{}), Log: h.Log})
	hub, err := live.New(live.Config{}, []live.View{h.View()}, prometheus.NewRegistry(), embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	hub.Register(srv, auth.New(auth.Config{}))
	server := httptest.NewServer(srv.Handler())
	t.Cleanup(server.Close)
	s.url, s.contract = server.URL+"/api/v1", contracttest.Of(t, srv.Handler())
	return s
}

// outcome is an item of a batch: an error if it has a code.
type outcome struct {
	id, code, message string
	crawled           time.Time
	retrying          bool
}

// batch writes a batch as the projector does: outcomes first, then its row.
func (s *site) batch(job string, index int, platform string, items ...outcome) (read time.Time) {
	s.t.Helper()
	s.seq++
	read = noon.Add(time.Duration(s.seq) * time.Minute)
	ok, failed, retrying, codes := 0, 0, 0, map[string]int{}
	for position, i := range items {
		switch {
		case i.code == "":
			ok++
		case i.retrying:
			retrying++
		default:
			failed++
		}
		if i.code != "" {
			codes[i.code]++
		}
		s.outcome(job, index, position, 0, platform, read, read, i)
	}
	project := batches.ProjectOf(job)
	s.postgres(`INSERT INTO millrace.batch (job_id, batch_index, project_id, platform, format, bucket, object_key, announced,
		content_count, ok, error, retrying, errors, content_hash, announced_at, read_at, changed_at, seq)
		VALUES ($1, $2, nullif($3, ''), $4, 'event', 'crawl', 'a/b.json', $5, $5, $6, $7, $8, $9, '\x0102', $10, $10, $10, $11)`,
		job, index, project, platform, len(items), ok, failed, retrying, codes, read, s.seq)
	return read
}

func (s *site) outcome(job string, index, position, version int, platform string, read, at time.Time, i outcome) {
	s.t.Helper()
	status, category := "success", batches.Category("")
	if i.code != "" {
		status, category = "error", batches.CategoryOf(i.code)
	}
	var crawled *time.Time
	if !i.crawled.IsZero() {
		crawled = &i.crawled
	}
	project := batches.ProjectOf(job)
	s.clickhouse(`INSERT INTO item_outcomes (job_id, batch_index, position, version, project_id, platform, content_id, crawled_at,
		fetch_status, error_category, error_code, fetch_error, error_details, content, read_at, created_at, seq)`,
		job, uint32(index), uint32(position), uint64(version), project, platform, i.id, crawled, status, string(category),
		i.code, i.message, `{"n":1}`, `{"content_id":"`+i.id+`"}`, read, at, uint64(s.seq))
	if i.code != "" || version > 0 {
		removed := uint8(0)
		if i.code == "" {
			removed = 1
		}
		s.clickhouse(`INSERT INTO item_errors (job_id, batch_index, position, version, project_id, platform, content_id, error_code,
			error_category, error_message, error_details, read_at, created_at, seq, removed)`,
			job, uint32(index), uint32(position), uint64(version), project, platform, i.id, i.code, string(category), i.message,
			`{"n":1}`, read, at, uint64(s.seq), removed)
	}
}

func (s *site) clickhouse(insert string, row ...any) {
	s.t.Helper()
	b, err := s.conn.PrepareBatch(s.t.Context(), insert)
	if err == nil {
		if err = b.Append(row...); err == nil {
			err = b.Send()
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) postgres(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) ask(path string) (*http.Response, []byte) {
	s.t.Helper()
	resp, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.contract.Check(http.MethodGet, resp.Request.URL, resp, text); err != nil {
		s.t.Error(err)
	}
	return resp, text
}

func get[T any](s *site, path string) (answer T) {
	s.t.Helper()
	resp, text := s.ask(path)
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		s.t.Fatalf("%s: %v: %s", path, err, text)
	}
	return answer
}

// TestState: no batch with a failure succeeded.
func TestState(t *testing.T) {
	t.Parallel()
	s := serve(t)
	good, bad := outcome{id: "g"}, outcome{id: "b", code: "TIMEOUT"}
	again := bad
	again.retrying = true
	s.batch("p-b-0", 0, "tiktok", good, good)
	s.batch("p-b-0", 1, "tiktok", good, bad)
	s.batch("p-b-0", 2, "tiktok", bad, bad)
	s.batch("p-b-0", 3, "tiktok", bad, again)
	s.batch("p-b-0", 4, "tiktok", good, again)
	s.batch("p-b-0", 5, "tiktok")
	for index, want := range []string{"succeeded", "partial", "failed", "retrying", "retrying", "empty"} {
		b := get[CrawlBatch](s, fmt.Sprintf("/batches/p-b-0/%d", index))
		if b.State != want || b.OK+b.Error+b.Retrying != b.ContentCount || b.State == "succeeded" && b.OK != b.ContentCount {
			t.Errorf("%+v is not %s", b, want)
		}
		page := get[CrawlBatchPage](s, "/batches?state="+want)
		if !slices.ContainsFunc(page.Items, func(b CrawlBatch) bool { return int(b.BatchIndex) == index }) {
			t.Errorf("%s selects %+v", want, page.Items)
		}
	}
}

// TestBatch: a batch tells its errors by code, its warnings and other content.
func TestBatch(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const job = "legacy:crawl/a b/ü.json"
	s.batch(job, 0, "", outcome{id: "a", code: "TIMEOUT"}, outcome{id: "b", code: "RATE_LIMITED"},
		outcome{id: "c", code: "RATE_LIMITED"}, outcome{id: "d", code: "ODD"})
	s.postgres(`UPDATE millrace.batch SET warnings = '[{"code":"count_unexpected","text":"the batch has 4 items"}]', conflict =
		'{"at":"2026-02-10T00:00:00Z","content_hash":"ff","content_count":3,"object":"crawl/c","seq":9}'`)
	b := get[CrawlBatch](s, "/batches/"+url.PathEscape(job)+"/0")
	wantErrors := []CodeCount{{"RATE_LIMITED", "rate_limiting", 2}, {"ODD", "generic", 1}, {"TIMEOUT", "network", 1}}
	if !slices.Equal(b.Errors, wantErrors) || b.ProjectID != nil || b.ContentHash != "0102" || len(b.Warnings) != 1 ||
		b.Conflict == nil || b.Conflict.ContentCount != 3 || b.Conflict.Object != "crawl/c" || b.JobID != job {
		t.Errorf("%+v", b)
	}
	for query, want := range map[string]int{"noted=warnings": 1, "noted=conflict": 1, "platform=youtube": 0, "": 1} {
		if page := get[CrawlBatchPage](s, "/batches?"+query); len(page.Items) != want {
			t.Errorf("%s: %+v", query, page)
		}
	}
}

// TestPages: the pages of a list have each batch once, those read last first, whatever comes
// meanwhile.
func TestPages(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var want, got []int32
	for i := range 9 {
		s.batch("p-b-0", i, "tiktok", outcome{id: "a"})
		want = append(want, int32(8-i))
	}
	s.postgres("UPDATE millrace.batch SET read_at = date_trunc('hour', read_at)") // the same of all
	for cursor := ""; ; {
		page := get[CrawlBatchPage](s, "/batches?job_id=p-b-0&limit=2"+cursor)
		for _, b := range page.Items {
			got = append(got, b.BatchIndex)
		}
		if page.NextCursor == "" {
			break
		}
		s.batch("p-b-0", 100+len(got), "tiktok")
		cursor = "&cursor=" + page.NextCursor
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestSummary: sums are those of the batches that the filters select.
func TestSummary(t *testing.T) {
	t.Parallel()
	s := serve(t)
	if none := get[BatchesSummary](s, "/batches/summary"); none.Batches != 0 || none.SuccessRate != nil {
		t.Errorf("%+v", none)
	}
	s.batch("p-b-0", 0, "tiktok", outcome{id: "a"}, outcome{id: "b", code: "TIMEOUT"})
	at := s.batch("p-b-0", 1, "tiktok", outcome{id: "c", code: "TIMEOUT", retrying: true}, outcome{id: "d"})
	s.batch("q-b-0", 0, "youtube", outcome{id: "e", code: "ODD"})
	sum := get[BatchesSummary](s, "/batches/summary?project_id=p")
	if sum.BatchNumbers != (BatchNumbers{2, 4, 2, 1, 1}) || *sum.SuccessRate != 0.5 || len(sum.OverTime) != 2 ||
		sum.StepSeconds != 1 || !slices.Equal(sum.Errors, []CodeCount{{"TIMEOUT", "network", 2}}) {
		t.Errorf("%+v", sum)
	}
	if sum := get[BatchesSummary](s, "/batches/summary?from="+at.Format(time.RFC3339)); sum.Batches != 2 {
		t.Errorf("%+v", sum)
	}
}

// TestItem: the newest crawl by crawled_at is shown, the others are listed, and of each the
// outcome that counts.
func TestItem(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const id = "https://example.com/a?b=1"
	early, late := noon.Add(-2*time.Hour), noon.Add(-time.Hour)
	s.batch("p-b-0", 0, "tiktok", outcome{id: "x"}, outcome{id: id}, outcome{id: id, crawled: early})
	read := s.batch("p-b-1", 7, "tiktok", outcome{id: id, code: "TIMEOUT", crawled: late})
	s.batch("p-b-2", 1, "tiktok", outcome{id: id, crawled: early.Add(-time.Hour)})
	s.outcome("p-b-1", 7, 0, 1, "tiktok", read, read.Add(time.Hour), outcome{id: id, crawled: late.Add(time.Minute)})
	item := get[BatchItem](s, "/batch-items/"+url.PathEscape(id)+"?content=true")
	var others []string
	for _, o := range item.Others {
		others = append(others, fmt.Sprint(o.JobID, " ", o.BatchIndex, " ", o.Position))
	}
	if item.JobID != "p-b-1" || item.FetchStatus != "success" || item.Attempts != 1 || len(item.History) != 1 ||
		item.History[0].ErrorCode != "TIMEOUT" || string(item.Content) != `{"content_id":"`+id+`"}` ||
		!slices.Equal(others, []string{"p-b-0 0 2", "p-b-2 1 0", "p-b-0 0 1"}) {
		t.Errorf("%+v", item)
	}
	if item := get[BatchItem](s, "/batch-items/x"); item.Content != nil || len(item.Others) != 0 {
		t.Errorf("%+v", item)
	}
}

// TestLookup: an item is looked up in the projection.
func TestLookup(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.batch("p-b-0", 0, "tiktok", outcome{id: "a"})
	// Enough that the planner has a choice.
	if err := s.conn.Exec(t.Context(), `INSERT INTO item_outcomes (job_id, content_id, fetch_status, read_at)
		SELECT toString(number % 100), toString(number), 'success', now() FROM numbers(50000)`); err != nil {
		t.Fatal(err)
	}
	text, err := files.ReadFile("sql/item.sql")
	if err != nil {
		t.Fatal(err)
	}
	statement := strings.NewReplacer("@id", "'777'", "@limit", "10").Replace(string(text))
	found, err := s.conn.Query(t.Context(), "EXPLAIN indexes = 1 "+statement)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	plan := ""
	for found.Next() {
		var line string
		if err := found.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan += line + "\n"
	}
	if !strings.Contains(plan, "by_content_id") {
		t.Error(plan)
	}
}

// TestErrors: errors that count are listed once, on pages of any size, and with their share of
// the items.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := serve(t)
	fault := func(id, code, message string) outcome { return outcome{id: id, code: code, message: message} }
	s.batch("p-b-0", 0, "tiktok", outcome{id: "a"}, fault("b", "TIMEOUT", "no answer in 30 s from https://a.example/1"),
		fault("c", "TIMEOUT", "no answer in 31 s from https://b.example/2"), fault("d", "RATE_LIMITED", "slow down"))
	read := s.batch("p-b-0", 1, "tiktok", fault("e", "TIMEOUT", "refused"), outcome{id: "f"})
	last := s.batch("q-b-0", 0, "youtube", outcome{id: "g"}, fault("h", "ODD", "what"))
	s.outcome("p-b-0", 1, 0, 1, "tiktok", read, last.Add(time.Hour), outcome{id: "e"}) // a retry
	for query, want := range map[string]string{
		"":                                    "h b c d 4/8",
		"code=TIMEOUT":                        "b c 2/8",
		"category=rate_limiting":              "d 1/8",
		"project_id=p":                        "b c d 3/6",
		"platform=youtube":                    "h 1/2",
		"job_id=p-b-0&code=ODD":               "0/6",
		"from=" + last.Format(time.RFC3339):   "h 1/2",
		"to=" + last.Format(time.RFC3339Nano): "b c d 3/6",
		"project_id=none":                     "0/0",
	} {
		got, cursor, total := []string{}, "", ""
		for {
			page := get[CrawlErrorPage](s, "/crawl-errors?limit=1&"+query+cursor)
			for _, e := range page.Items {
				got = append(got, e.ContentID)
			}
			total = fmt.Sprintf("%d/%d", page.Total, page.ContentCount)
			if (page.Rate == nil) != (page.ContentCount == 0) {
				t.Errorf("%s: %+v", query, page)
			}
			if page.NextCursor == "" {
				break
			}
			cursor = "&cursor=" + page.NextCursor
		}
		if got := strings.Join(append(got, total), " "); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	rates := get[CrawlErrorRates](s, "/crawl-errors/rates?by=platform")
	if rates.Errors != 4 || rates.ContentCount != 8 || len(rates.Items) != 2 || rates.Items[0].Name != "tiktok" ||
		rates.Items[0].Errors != 3 || rates.Items[0].ContentCount != 6 || *rates.Items[1].Rate != 0.5 {
		t.Errorf("%+v", rates)
	}
	for _, by := range []string{"code", "category", "project", "hour", "day"} {
		rates, sum := get[CrawlErrorRates](s, "/crawl-errors/rates?by="+by), uint64(0)
		for _, r := range rates.Items {
			sum += r.Errors
		}
		if sum != 4 || *rates.Rate != 0.5 {
			t.Errorf("%s: %+v", by, rates)
		}
	}
	groups := get[CrawlErrorGroups](s, "/crawl-errors/groups").Groups
	if len(groups) != 3 || groups[0].Count != 2 || groups[0].Fingerprint != "no answer in ‹n› s from ‹url›" ||
		groups[0].ErrorCategory != "network" || groups[0].LastSeen.Before(groups[0].FirstSeen) {
		t.Errorf("%+v", groups)
	}
	if one := get[CrawlErrorGroups](s, "/crawl-errors/groups?limit=1"); len(one.Groups) != 1 || !one.More {
		t.Errorf("%+v", one)
	}
}

// TestItemsOfBatch: the items of a batch come in its order, with the outcome that counts.
func TestItemsOfBatch(t *testing.T) {
	t.Parallel()
	s := serve(t)
	read := s.batch("p-b-0", 3, "tiktok", outcome{id: "a"}, outcome{id: "a", code: "TIMEOUT"}, outcome{id: "", code: "PARSE_ERROR"})
	s.batch("p-b-0", 4, "tiktok", outcome{id: "z"})
	s.outcome("p-b-0", 3, 1, 2, "tiktok", read, read, outcome{id: "a"})
	for query, want := range map[string][]string{"": {"0 ", "1 ", "2 PARSE_ERROR"}, "&fetch_status=error": {"2 PARSE_ERROR"}} {
		var got []string
		for cursor := ""; ; {
			page := get[CrawledItemPage](s, "/batches/p-b-0/3/items?limit=1"+query+cursor)
			for _, i := range page.Items {
				got = append(got, fmt.Sprint(i.Position, " ", i.ErrorCode))
			}
			if page.NextCursor == "" {
				break
			}
			cursor = "&cursor=" + page.NextCursor
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
}

// TestReport: a report of each format has every item of a batch, a job or a project once, with
// its outcome that counts and a checksum.
func TestReport(t *testing.T) {
	t.Parallel()
	s := serve(t)
	odd := outcome{id: "=1+1", code: "TIMEOUT", message: "a,\"b\"\r\nc"}
	read := s.batch("p-b-0", 0, "tiktok", outcome{id: "a", crawled: noon}, odd)
	s.batch("p-b-0", 1, "tiktok", outcome{id: "b"})
	s.batch("p-c-0", 0, "tiktok", outcome{id: "c"})
	s.batch("q-b-0", 0, "tiktok", outcome{id: "d"})
	s.outcome("p-b-0", 1, 0, 1, "tiktok", read, read, outcome{id: "b"})
	for query, want := range map[string]string{
		"job_id=p-b-0&batch_index=0": "a =1+1", "job_id=p-b-0": "a =1+1 b", "project_id=p": "a =1+1 b c",
		"project_id=p&fetch_status=error": "=1+1", "job_id=p-b-0&project_id=q": "",
	} {
		for format, read := range map[string]func([]byte) ([]string, error){
			"csv": readCSV, "ndjson": readLines, "ndjson.zst": readZstd, "parquet": readParquet,
		} {
			resp, content := s.ask("/batches/report?" + query + "&format=" + format)
			if want == "" {
				if resp.StatusCode != http.StatusNotFound {
					t.Errorf("%s: %d %s", query, resp.StatusCode, content)
				}
				continue
			}
			sum := sha256.Sum256(content)
			if checksum := resp.Trailer.Get(reads.Checksum); checksum != hex.EncodeToString(sum[:]) {
				t.Errorf("%s %s: the checksum is %q", query, format, checksum)
			}
			if ids, err := read(content); err != nil || strings.Join(ids, " ") != want {
				t.Errorf("%s %s: %q, want %q (%v)", query, format, ids, want, err)
			}
		}
	}
}

func readCSV(content []byte) (ids []string, err error) {
	all, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil {
		return nil, err
	}
	at := slices.Index(all[0], "content_id")
	for _, row := range all[1:] {
		ids = append(ids, strings.TrimPrefix(row[at], "'"))
	}
	return ids, nil
}

func readLines(content []byte) (ids []string, err error) {
	for line := range bytes.Lines(content) {
		var i CrawledItem
		if err := json.Unmarshal(line, &i); err != nil {
			return nil, err
		}
		ids = append(ids, i.ContentID)
	}
	return ids, nil
}

func readZstd(content []byte) ([]string, error) {
	in, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if content, err = in.DecodeAll(content, nil); err != nil {
		return nil, err
	}
	return readLines(content)
}

func readParquet(content []byte) (ids []string, err error) {
	all, err := parquet.Read[parquetItem](bytes.NewReader(content), int64(len(content)))
	for _, i := range all {
		ids = append(ids, i.ContentID)
	}
	return ids, err
}

// TestRefused: bad input is answered by field and rule, and what is not there by 404.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for path, want := range map[string]string{
		"/batches?limit=0":        "400 limit",
		"/batches?cursor=x":       "400 cursor",
		"/batches?state=done":     "400 state",
		"/batches?job=a":          "400 job",
		"/batches?job_id=%ff":     "400 job_id",
		"/batches?platform=a%00":  "400 platform",
		"/batches?from=yesterday": "400 from",
		"/batches?from=2026-02-11T00:00:00Z&to=2026-02-10T00:00:00Z": "400 to",
		"/batches?project_id=" + strings.Repeat("a", 2049):           "400 project_id",
		"/batches/summary?noted=all":                                 "400 noted",
		"/batches/p-b-0/x":                                           "400 batch_index",
		"/batches/p-b-0/-1":                                          "400 batch_index",
		"/batches/p-b-0/01":                                          "400 batch_index",
		"/batches/p-b-0/2147483648":                                  "400 batch_index",
		"/batches/p-b-0/1":                                           "404 batch_index",
		"/batches/p-b-0/1/items?status=a":                            "400 status",
		"/batches/p-b-0/1/items?cursor=a":                            "400 cursor",
		"/batches/report":                                            "400 job_id",
		"/batches/report?batch_index=1&project_id=p":                 "400 batch_index",
		"/batches/report?job_id=p-b-0":                               "404 job_id",
		"/batches/report?project_id=p":                               "404 project_id",
		"/batches/report?job_id=p-b-0&format=xml":                    "400 format",
		"/batch-items/none":                                          "404 content_id",
		"/batch-items/a%00":                                          "400 content_id",
		"/batch-items/" + strings.Repeat("a", 4097):                  "400 content_id",
		"/batch-items/none?others=1":                                 "400 others",
		"/crawl-errors?error_code=A":                                 "400 error_code",
		"/crawl-errors?category=odd":                                 "400 category",
		"/crawl-errors?cursor=AAAA":                                  "400 cursor",
		"/crawl-errors/rates?by=week":                                "400 by",
		"/crawl-errors/groups?limit=1001":                            "400 limit",
	} {
		resp, text := s.ask(path)
		var p struct {
			Errors []struct{ Field, Rule string }
		}
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(path, string(text), err)
		}
		got := fmt.Sprint(resp.StatusCode)
		if len(p.Errors) > 0 && p.Errors[0].Rule != "" {
			got += " " + p.Errors[0].Field
		}
		if got != want {
			t.Errorf("%.80s: %s %s, want %s", path, got, text, want)
		}
	}
}
