package events

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/schemas/event"
)

// file returns a file with its name.
func (r *rig) file(path string, pairs ...string) (name string, content []byte) {
	r.T.Helper()
	resp, err := http.Get(r.URL + "/api/v1" + path + "?" + viewtest.Values(pairs...).Encode())
	if err != nil {
		r.T.Fatal(err)
	}
	defer resp.Body.Close()
	content, err = io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.T.Fatalf("status %d, %v: %s", resp.StatusCode, err, content)
	}
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Disposition"))
	if err != nil {
		r.T.Fatal(err)
	}
	return params["filename"], content
}

// odd are events that are hard to write: texts that a spreadsheet would run,
// separators, line breaks in metadata, numbers that a float cannot hold.
func odd() []event.Event {
	odd := event.Event{
		ArticleURL: `https://example.com/a?b="1,2"`, CanonicalURL: "https://example.com/a",
		SourceName: `=HYPERLINK("http://evil.example","click")`, Stage: "classified", OccurredAt: noon,
		ServiceName: "-2+3", TraceID: "@SUM(1)", IdempotencyKey: "+1;\"2\"",
		Metadata: map[string]any{"n": json.Number("9007199254740993"), "text": "a\r\nb, \"c\"", "html": "<b>&"},
	}
	plain := event.Event{
		ArticleURL: "https://example.com/b", SourceName: "ünï, cöde", Stage: "crawled",
		OccurredAt: noon.Add(-time.Nanosecond), ServiceName: "s=1",
	}
	return []event.Event{odd, plain}
}

// TestExport: a file of each format has the events of the pages, in their order
// and with all that they carry.
func TestExport(t *testing.T) {
	t.Parallel()
	r := serve(t)
	r.Write(viewtest.Draw(rand.New(rand.NewPCG(5, 6)), noon, exportPage+200)...)
	r.Write(odd()...)
	var want []StoredEvent
	query := viewtest.Values("limit", "1000")
	for {
		var page EventsPage
		r.Must("/events", query, &page)
		want = append(want, page.Events...)
		if page.NextCursor == "" {
			break
		}
		query.Set("cursor", page.NextCursor)
	}
	if len(want) != len(r.All) {
		t.Fatalf("pages have %d events of %d", len(want), len(r.All))
	}
	for format, read := range map[string]func(*testing.T, []byte) []StoredEvent{
		"csv": readCSV, "ndjson": readLines, "parquet": readParquet,
	} {
		name, content := r.file("/events/export", "format", format)
		if name != "events-20260317T120713Z."+format {
			t.Errorf("the file is called %s", name)
		}
		got := read(t, content)
		if len(got) != len(want) {
			t.Fatalf("%s: %d events, want %d", format, len(got), len(want))
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("%s: event %d is %+v, want %+v", format, i, got[i], want[i])
			}
		}
	}
	// The newest so many, across a page; and those of a filter.
	if _, content := r.file("/events/export", "format", "ndjson", "limit",
		strconv.Itoa(exportPage+1)); !reflect.DeepEqual(
		readLines(t, content), want[:exportPage+1],
	) {
		t.Error("a limit does not leave the newest")
	}
	_, content := r.file("/events/export", "format", "csv", "service", "s=1")
	if got := readCSV(t, content); len(got) != 1 || got[0].SourceName != "ünï, cöde" {
		t.Errorf("%+v", got)
	}
}

// readCSV takes off the apostrophes that stand before formulas.
func readCSV(t *testing.T, content []byte) (events []StoredEvent) {
	t.Helper()
	if lines, breaks := bytes.Count(content, []byte("\r\n")), bytes.Count(content, []byte("\n")); lines != breaks {
		t.Errorf("%d of %d lines end in CRLF", lines, breaks)
	}
	rows, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil || len(rows) == 0 || !reflect.DeepEqual(rows[0], eventTable.Columns) {
		t.Fatalf("%v: %v", err, rows)
	}
	for _, row := range rows[1:] {
		fields := map[string]any{}
		for i, text := range row {
			if text != "" && strings.ContainsAny(text[:1], "=+-@") {
				t.Errorf("a spreadsheet takes %s for a formula: %s", eventTable.Columns[i], text)
			}
			text = strings.TrimPrefix(text, "'")
			switch eventTable.Columns[i] {
			case "seq", "metadata_schema_version":
				fields[eventTable.Columns[i]] = json.Number(text)
			case "metadata":
				fields[eventTable.Columns[i]] = json.RawMessage(text)
				if text == "" {
					fields[eventTable.Columns[i]] = nil
				}
			default:
				fields[eventTable.Columns[i]] = text
			}
		}
		document, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, decodeEvent(t, document))
	}
	return events
}

// TestExportArticles: a file of each format has the articles of the pages, in
// their order and with all that is said of them.
func TestExportArticles(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	r := serve(t)
	r.maxArticles = 7
	odd := odd()
	odd[0].OccurredAt = noon.Add(-2 * time.Hour)
	r.Write(append(viewtest.Courses(rand.New(rand.NewPCG(3, 4)), noon, 120), odd[0])...)
	for name, selection := range map[string][]string{
		"stuck": {"stuck_after", "classified"}, "slowest": {"sort", "slowest", "period", "7d"},
	} {
		want := r.articlePages(viewtest.Values(selection...))
		if len(want) <= 2*r.maxArticles {
			t.Fatalf("%s: %d articles do not fill three pages", name, len(want))
		}
		_, lines := r.file("/articles/export", append(selection, "format", "ndjson")...)
		_, table := r.file("/articles/export", append(selection, "format", "csv")...)
		file, rows := r.file("/articles/export", append(selection, "format", "parquet")...)
		if file != "articles-20260317T120713Z.parquet" {
			t.Errorf("the file is called %s", file)
		}
		for format, got := range map[string][]Article{
			"ndjson": readLinesOf[Article](t, lines), "csv": articlesOfCSV(t, table),
			"parquet": articlesOfParquet(t, rows),
		} {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: %+v\nwant %+v", name, format, got, want)
			}
		}
	}
	var p httpapi.Problem
	if status := r.Get("/articles/export", viewtest.Values("format", "xls"), &p); status != http.StatusBadRequest ||
		len(p.Errors) != 2 {
		t.Errorf("%d %+v", status, p)
	}
}

func articlesOfCSV(t *testing.T, content []byte) (articles []Article) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil || len(rows) == 0 || !reflect.DeepEqual(rows[0], articleTable.Columns) {
		t.Fatalf("%v: %v", err, rows)
	}
	for _, row := range rows[1:] {
		fields := map[string]any{}
		for i, text := range row {
			switch name := articleTable.Columns[i]; {
			case name == "events" || name == "seconds":
				fields[name] = json.Number(text)
			case text != "":
				fields[name] = strings.TrimPrefix(text, "'")
			}
		}
		document, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		articles = append(articles, readLinesOf[Article](t, document)...)
	}
	return articles
}

func articlesOfParquet(t *testing.T, content []byte) (articles []Article) {
	t.Helper()
	rows, err := parquet.Read[parquetArticle](bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	utc := func(at *time.Time) *time.Time {
		if at == nil {
			return nil
		}
		return new(at.UTC())
	}
	for _, row := range rows {
		articles = append(articles, Article{
			URLHash: row.URLHash, ArticleURL: row.ArticleURL, SourceName: row.SourceName, TraceID: row.TraceID,
			Stage: row.Stage, ReachedAt: row.ReachedAt.UTC(), Until: row.Until, UntilAt: utc(row.UntilAt),
			LastAt: utc(row.LastAt), Events: row.Events, Seconds: row.Seconds,
		})
	}
	return articles
}

// readLinesOf reads documents, one in each line.
func readLinesOf[T any](t *testing.T, content []byte) (all []T) {
	t.Helper()
	for dec := json.NewDecoder(bytes.NewReader(content)); dec.More(); {
		var one T
		if err := dec.Decode(&one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

func readLines(t *testing.T, content []byte) (events []StoredEvent) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		events = append(events, decodeEvent(t, lines.Bytes()))
	}
	return events
}

func decodeEvent(t *testing.T, document []byte) (e StoredEvent) {
	t.Helper()
	if err := json.Unmarshal(document, &e); err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	e.Metadata = bytes.Clone(e.Metadata)
	return e
}

func readParquet(t *testing.T, content []byte) (events []StoredEvent) {
	t.Helper()
	rows, err := parquet.Read[parquetEvent](bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		e := StoredEvent{
			Seq: row.Seq, ArticleURL: row.ArticleURL, CanonicalURL: row.CanonicalURL, URLHash: row.URLHash,
			Domain: row.Domain, SourceName: row.SourceName, Stage: row.Stage, OccurredAt: row.OccurredAt.UTC(),
			ReceivedAt: row.ReceivedAt.UTC(), ServiceName: row.ServiceName, IdempotencyKey: row.IdempotencyKey,
			TraceID: row.TraceID, MetadataSchemaVersion: uint16(row.MetadataSchemaVersion),
			Metadata: json.RawMessage(row.Metadata),
		}
		events = append(events, e)
	}
	return events
}

// TestExportOfNone: a file without events is a file of its format.
func TestExportOfNone(t *testing.T) {
	t.Parallel()
	r := serve(t)
	for format, read := range map[string]func(*testing.T, []byte) []StoredEvent{
		"csv": readCSV, "ndjson": readLines, "parquet": readParquet,
	} {
		if _, content := r.file("/events/export", "format", format); len(read(t, content)) != 0 {
			t.Errorf("%s: %s", format, content)
		}
	}
}

// TestExportBound: more events than an export may have are refused, and not cut.
func TestExportBound(t *testing.T) {
	t.Parallel()
	r := serve(t)
	r.maxExport = 3
	r.Write(viewtest.Draw(rand.New(rand.NewPCG(7, 8)), noon, 4)...)
	var p httpapi.Problem
	if status := r.Get("/events/export", nil, &p); status != http.StatusBadRequest ||
		len(p.Errors) != 1 || p.Errors[0].Field != "limit" || p.Errors[0].Code != "export_size" {
		t.Errorf("%d %+v", status, p)
	}
	if _, content := r.file("/events/export", "limit", "3"); len(readCSV(t, content)) != 3 {
		t.Errorf("%s", content)
	}
	r.maxExport = 4
	if _, content := r.file("/events/export"); len(readCSV(t, content)) != 4 {
		t.Errorf("%s", content)
	}
	p = httpapi.Problem{}
	if status := r.Get("/events/export", viewtest.Values("format", "xls", "stage", "nowhere"), &p); status !=
		http.StatusBadRequest || len(p.Errors) != 2 {
		t.Errorf("%d %+v", status, p)
	}
}
