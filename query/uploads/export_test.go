package uploads

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/parquet-go/parquet-go"
	"github.com/xuri/excelize/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/query/reads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// spoilable has cells that formats may spoil.
var spoilable = [][]string{
	{"a", "=b", "c"},
	{"=1+1", "two\nlines", "two\r\nlines\r"},
	{"'", " spaces ", "\ttab"},
	{"_x0041_", "<&>\"", "007"},
	{"😀", "", "\x01"},
	{strings.Repeat("😀", 20_000), "1e5", "TRUE"},
}

func spoilableText(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if err := w.WriteAll(spoilable); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// download returns a file whose checksum is right.
func (s *site) download(path string) []byte {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	file, err := io.ReadAll(answer.Body)
	if sum := sha256.Sum256(file); err != nil || answer.StatusCode != 200 ||
		answer.Trailer.Get(reads.Checksum) != hex.EncodeToString(sum[:]) {
		s.t.Fatalf("%s: %d, %.200s, checksum %q, %v", path, answer.StatusCode, file, answer.Trailer.Get(reads.Checksum), err)
	}
	return file
}

// TestExport: results are exported in each format cell for cell, as the grid has them.
func TestExport(t *testing.T) {
	s := serve(t, auth.Config{})
	j := s.fill("", "x.csv", spoilableText(t)+"left out\n", nil)
	if _, err := s.store.Move(t.Context(), j, schema.StatusDone, 0, 100); err != nil {
		t.Fatal(err)
	}
	base := "/api/v1/uploads/" + j.ID.String() + "/export"
	csvText := string(s.download(base + "?format=csv&exact=true"))
	var want bytes.Buffer
	for _, record := range spoilable {
		var line bytes.Buffer
		one := csv.NewWriter(&line)
		_ = one.Write(record)
		one.Flush()
		want.WriteString(strings.TrimSuffix(line.String(), "\n") + "\r\n")
	}
	if csvText != want.String() {
		t.Errorf("%.300q, want %.300q", csvText, want.String())
	}
	if guarded := string(s.download(base)); !strings.HasPrefix(guarded, "a,'=b,c\r\n'=1+1,") {
		t.Errorf("%.40q", guarded)
	}
	items := read[UploadItemPage](s, "/api/v1/uploads/"+j.ID.String()+"/items").Items
	lines := strings.Split(strings.TrimSuffix(string(s.download(base+"?format=ndjson")), "\n"), "\n")
	if len(lines) != len(items) || len(items) != len(spoilable)-1 {
		t.Fatalf("%d lines of %d items", len(lines), len(items))
	}
	for i, line := range lines {
		var same bytes.Buffer
		if err := json.Compact(&same, items[i].Result); err != nil || same.String() != line {
			t.Errorf("%.100s, want %.100s, %v", line, items[i].Result, err)
		}
	}
	book, err := excelize.OpenReader(bytes.NewReader(s.download(base + "?format=xlsx")))
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	rows, err := book.GetRows("Results")
	if err != nil || len(rows) != len(spoilable) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, row := range rows {
		for k, cell := range row {
			want := spoilable[i][k]
			switch {
			case want == "\x01":
				want = "\ufffd"
			case len(want) > 50_000:
				want = want[:16_383*len("😀")]
			}
			if cell != want {
				t.Errorf("cell %d of row %d is %.40q, want %.40q", k, i, cell, want)
			}
		}
	}
	if formula, err := book.GetCellFormula("Results", "A2"); formula != "" || err != nil {
		t.Errorf("a formula %q, %v", formula, err)
	}
	others, err := book.GetRows("Long texts")
	if err != nil || len(others) != 4 || !slices.Equal(others[1], []string{"Results", "C5", "1", "JSON", `"\u0001"`}) ||
		others[2][1] != "A6" || others[2][4]+others[3][4] != spoilable[5][0] {
		t.Errorf("%d long texts, %v: %.100q", len(others), err, others)
	}
	columns, table := readParquet(t, s.download(base+"?format=parquet"))
	if !slices.Equal(columns, spoilable[0]) || len(table) != len(spoilable)-1 {
		t.Fatalf("%d rows of %q", len(table), columns)
	}
	for i, row := range table {
		for k, cell := range row {
			if cell == nil || *cell != spoilable[i+1][k] {
				t.Errorf("Parquet: cell %d of row %d is not %.40q", k, i+1, spoilable[i+1][k])
			}
		}
	}
	if status, text := s.get(base + "?format=pdf"); status != 400 {
		t.Errorf("%d %s", status, text)
	}
}

// readParquet returns the columns and the rows of a file, with nil for null.
func readParquet(t *testing.T, content []byte) (columns []string, table [][]*string) {
	t.Helper()
	file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range file.Schema().Fields() {
		columns = append(columns, field.Name())
	}
	for _, group := range file.RowGroups() {
		rows, page := group.Rows(), make([]parquet.Row, 100)
		for {
			n, err := rows.ReadRows(page)
			for _, row := range page[:n] {
				cells := make([]*string, len(columns))
				for _, value := range row {
					if text := value.String(); !value.IsNull() {
						cells[value.Column()] = &text
					}
				}
				table = append(table, cells)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return columns, table
}

// TestExportObjects: columns of JSON lines are the members of all of them, and nothing but results is there.
func TestExportObjects(t *testing.T) {
	s := serve(t, auth.Config{})
	j := s.fill("", "x.ndjson", `{"b":1,"a":"=x"}`+"\n"+`{"c":{"d":[1, 2]},"b":null}`+"\n"+`{"z":1}`+"\n", nil)
	if _, err := s.store.Move(t.Context(), j, schema.StatusDone, 0, 2); err != nil {
		t.Fatal(err)
	}
	base := "/api/v1/uploads/" + j.ID.String() + "/export"
	want := "b,a,c\r\n1,'=x,\r\n,,\"{\"\"d\"\":[1,2]}\"\r\n"
	if got := string(s.download(base)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	columns, rows := readParquet(t, s.download(base+"?format=parquet"))
	if got, err := json.Marshal(rows); string(got) != `[["1","=x",null],[null,null,"{\"d\":[1,2]}"]]` || err != nil ||
		!slices.Equal(columns, []string{"b", "a", "c"}) {
		t.Errorf("%q %s %v", columns, got, err)
	}
	none := s.fill("", "y.csv", table(3), nil)
	if got := string(s.download("/api/v1/uploads/" + none.ID.String() + "/export")); got != "sku,title,price\r\n" {
		t.Errorf("%q", got)
	}
	if columns, rows := readParquet(t, s.download("/api/v1/uploads/"+none.ID.String()+"/export?format=parquet")); len(columns) != 3 || rows != nil {
		t.Errorf("%q, %d rows", columns, len(rows))
	}
}

// TestExportColumns: odd names are columns. Too many are refused, and rows without any.
func TestExportColumns(t *testing.T) {
	s := serve(t, auth.Config{})
	export := func(file string) string {
		j := s.fill("", "x.ndjson", file, nil)
		if _, err := s.store.Move(t.Context(), j, schema.StatusDone, 0, 2000); err != nil {
			t.Fatal(err)
		}
		return "/api/v1/uploads/" + j.ID.String() + "/export?format=parquet"
	}
	columns, rows := readParquet(t, s.download(export(`{"":"1","a.b":"2","é\n":3,"A":4,"a":5}`+"\n")))
	if !slices.Equal(columns, []string{"", "a.b", "é\n", "A", "a"}) || len(rows) != 1 || *rows[0][4] != "5" {
		t.Errorf("%q %v", columns, rows)
	}
	var wide strings.Builder
	for i := range uploads.MaxIndexedColumns + 1 {
		fmt.Fprintf(&wide, "{\"c%d\":%d}\n", i, i)
	}
	for _, file := range []string{wide.String(), "{}\n{}\n"} { // too many, and rows without any
		if status, text := s.get(export(file)); status != 409 || !strings.Contains(text, "ask for ndjson") {
			t.Errorf("%.40q: %d %s", file, status, text)
		}
	}
}

// TestExportSnapshot: an export shows the results of one instant, however slowly it is read, and one that
// nobody reads on gives its connection back.
func TestExportSnapshot(t *testing.T) {
	s := serve(t, auth.Config{})
	j := s.fill("", "x.csv", table(20_000), nil)
	if _, err := s.store.Move(t.Context(), j, schema.StatusDone, 0, 15_000); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.store.Results(ctx, uploads.Viewer{All: true}, j.ID, uploads.MaxColumns)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Move(t.Context(), j, schema.StatusDone, 0, 5_000); err != nil {
		t.Fatal(err)
	}
	n := 0
	for more := true; more; {
		var page []uploads.Result
		if page, more, err = r.Next(); err != nil {
			t.Fatal(err)
		}
		n += len(page)
	}
	r.Close()
	if n != 15_000 {
		t.Errorf("%d results, want 15000", n)
	}
	if r, err = s.store.Results(ctx, uploads.Viewer{All: true}, j.ID, uploads.MaxColumns); err != nil {
		t.Fatal(err)
	}
	cancel()
	r.Close()
	for end := time.Now().Add(20 * time.Second); s.pool.Stat().AcquiredConns() > 0; {
		if time.Now().After(end) {
			t.Fatalf("%d connections are held", s.pool.Stat().AcquiredConns())
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := s.store.Results(t.Context(), uploads.Viewer{Subject: "eve"}, j.ID, uploads.MaxColumns); !errors.Is(err, uploads.ErrNotFound) {
		t.Errorf("another's results: %v", err)
	}
}

// change makes a change of an item as the store does, and does not commit it.
func (s *site) change(j uploads.Job, row int, status schema.Status) pgx.Tx {
	s.t.Helper()
	tx, err := s.pool.Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var at time.Time
	if err := tx.QueryRow(s.t.Context(), `UPDATE millrace.upload SET pending = pending - 1, processing = processing + 1,
		changed_at = clock_timestamp() WHERE no = $1 RETURNING changed_at`, j.No).Scan(&at); err != nil {
		s.t.Fatal(err)
	}
	if _, err := tx.Exec(s.t.Context(), `UPDATE millrace.upload_item SET status = $3, version = version + 1, updated_at = $4
		WHERE job_no = $1 AND row_no = $2`, j.No, row, int16(status), at); err != nil {
		s.t.Fatal(err)
	}
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestPendingMissesNothing: an item whose change commits behind that of another upload, with an earlier time,
// is not missed.
func TestPendingMissesNothing(t *testing.T) {
	s := serve(t, auth.Config{})
	a, b := s.fill("", "a.csv", table(3), nil), s.fill("", "b.csv", table(3), nil)
	early := s.change(a, 2, schema.Processing) // it has its time, and commits last
	commit(t, s.change(b, 1, schema.Processing))
	first := read[PendingPage](s, "/api/pending?pageSize=100")
	if first.Next == "" {
		t.Fatalf("the walk is at its end while a change is under way: %+v", first)
	}
	commit(t, early)
	seen := map[string]string{}
	for _, item := range append(first.Items, s.pendings("?pageSize=2&after="+first.Next)...) {
		seen[item.ID] = item.Status
	}
	if id := schema.ItemID(a.ID.String(), 2); len(seen) != 6 || seen[id] != "PROCESSING" {
		t.Errorf("%v: %s is missed", seen, id)
	}
}

func (s *site) pendings(query string) (all []PendingItem) {
	s.t.Helper()
	for path := "/api/v1/pending" + query; ; {
		page := read[PendingPage](s, path)
		all = append(all, page.Items...)
		if page.Next == "" {
			return all
		}
		path = "/api/v1/pending" + query
		if at := strings.Index(path, "&after="); at >= 0 {
			path = path[:at]
		}
		path += "&after=" + page.Next
	}
}

// TestPending: pages have each item of all uploads of a user once, in the order of their changes.
func TestPending(t *testing.T) {
	s := serve(t, auth.Config{Secret: secret})
	var want []string
	for _, owner := range []string{"ann", "ben", "ann"} {
		j := s.fill(owner, "x.csv", table(250), map[string]string{"title": "title"})
		for row := range 250 {
			if owner == "ann" {
				want = append(want, schema.ItemID(j.ID.String(), int64(row+1)))
			}
		}
	}
	lines := s.fill("ann", "x.ndjson", `{"title":"t"}`+"\n", nil)
	s.token("ann", auth.Uploads)
	var got []string
	for _, item := range s.pendings("?jobType=csv&pageSize=70") {
		got = append(got, item.ID)
		if item.UserID != "ann" || item.Status != "PENDING" || item.JobTotal != 250 || item.InputSummary["title"] == "" {
			t.Fatalf("%+v", item)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d items, want %d", len(got), len(want))
	}
	if all := s.pendings("?jobType=ndjson&pageSize=70"); len(all) != 1 || all[0].JobID != lines.ID.String() {
		t.Errorf("%+v", all)
	}
	if all := s.pendings("?statuses=DONE,ERROR&pageSize=70"); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	if status, text := s.get("/api/v1/pending?userId=all"); status != 403 {
		t.Errorf("%d %s", status, text)
	}
	for _, query := range []string{"statuses=NEW", "userId=ben", "jobType=pdf", "pageSize=0", "after=x", "page=2", "limit=1"} {
		if status, text := s.get("/api/v1/pending?" + query); status != 400 {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	s.token("root", auth.Admin)
	if all := s.pendings("?userId=all&pageSize=1000"); len(all) != 751 {
		t.Errorf("an admin sees %d items", len(all))
	}
	if all := s.pendings("?pageSize=1000"); len(all) != 0 {
		t.Errorf("an admin has %d items", len(all))
	}
	s.token("eve", auth.Uploads)
	if all := s.pendings("?pageSize=1000"); len(all) != 0 {
		t.Errorf("another user sees %d items", len(all))
	}
}

// TestGauges: uploads in numbers are those of their items.
func TestGauges(t *testing.T) {
	s := serve(t, auth.Config{})
	a := s.fill("", "a.csv", table(10), nil)
	s.fill("", "b.csv", table(5), nil)
	if _, err := s.store.Move(t.Context(), a, schema.StatusDone, 0, 4); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `UPDATE millrace.upload SET done = 2, error = 1, not_found = 1,
		last_heartbeat = now() - interval '1 hour' WHERE no = $1`, a.No); err != nil {
		t.Fatal(err)
	}
	source := Gauges(s.store)
	got := map[string]float64{}
	set := func(g *sampler.Gauge, v float64, labels ...string) { got[g.String()+strings.Join(labels, "")] = v }
	value := func(name string) (float64, bool) {
		for key, v := range got {
			if strings.Contains(key, `"millrace_uploads_`+name+`"`) {
				return v, true
			}
		}
		return 0, false
	}
	if err := source.Read(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"pending_count": 11, "queue_depth": 11, "error_rate": 0.25, "not_found_rate": 0.25} {
		if v, _ := value(name); v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if v, _ := value("silent_seconds"); v < 3600 || v > 7200 {
		t.Errorf("silent for %v s", v)
	}
	if _, there := value("items_sec"); there {
		t.Error("a rate without two readings")
	}
	if v, there := value("export_age_seconds"); !there || v != 0 {
		t.Errorf("without exports the oldest is %v s old", v)
	}
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO millrace.upload_export (id, job_no, owner_no, format, exact, state, created_at)
		SELECT gen_random_uuid(), no, owner_no, 'csv', false, state, now() - age FROM millrace.upload, (VALUES ('DONE', interval '3 hours'),
		('FAILED', '3 hours'), ('RUNNING', '2 hours'), ('QUEUED', '1 hour')) AS e (state, age) WHERE no = $1`, a.No); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Move(t.Context(), a, schema.StatusDone, 0, 4); err != nil {
		t.Fatal(err)
	}
	if err := source.Read(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if v, _ := value("export_age_seconds"); v < 7200 || v >= 10800 {
		t.Errorf("the oldest export that is not made is %v s old, want two hours", v)
	}
	if v, there := value("items_sec"); !there || v <= 0 {
		t.Errorf("%v items a second", v)
	}
}
