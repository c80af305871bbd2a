package events

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// eventWriter writes events in a format.
type eventWriter interface {
	write([]StoredEvent) error
	close() error // ends the file
}

// format is one that events are exported in.
type format struct {
	contentType string
	begin       func(io.Writer) eventWriter
}

// formats by their names, which files end in.
var formats = map[string]format{
	"csv":     {"text/csv; charset=utf-8; header=present", beginCSV},
	"ndjson":  {"application/x-ndjson", beginLines},
	"parquet": {"application/vnd.apache.parquet", beginParquet},
}

func contentTypes() (types []string) {
	for _, name := range slices.Sorted(maps.Keys(formats)) {
		types = append(types, formats[name].contentType)
	}
	return types
}

// columns of CSV, as the fields of a JSON event are called.
var columns = []string{
	"seq", "occurred_at", "received_at", "stage", "source_name", "service_name", "article_url", "canonical_url",
	"url_hash", "domain", "trace_id", "idempotency_key", "metadata_schema_version", "metadata",
}

type csvWriter struct{ *csv.Writer }

func beginCSV(w io.Writer) eventWriter {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	_ = out.Write(columns) // csv keeps an error for the end
	return csvWriter{out}
}

func (w csvWriter) write(page []StoredEvent) error {
	for _, e := range page {
		metadata, err := oneLine(e.Metadata)
		if err != nil {
			return err
		}
		if err := w.Write([]string{
			strconv.FormatUint(e.Seq, 10), csvTime(e.OccurredAt), csvTime(e.ReceivedAt),
			noFormula(e.Stage), noFormula(e.SourceName), noFormula(e.ServiceName), noFormula(e.ArticleURL),
			noFormula(e.CanonicalURL), e.URLHash, noFormula(e.Domain), noFormula(e.TraceID),
			noFormula(e.IdempotencyKey), strconv.FormatUint(uint64(e.MetadataSchemaVersion), 10), metadata,
		}); err != nil {
			return err
		}
	}
	return w.close()
}

func (w csvWriter) close() error {
	w.Flush()
	return w.Error()
}

func csvTime(t time.Time) string { return t.Format(time.RFC3339Nano) }

// noFormula puts an apostrophe before a text that spreadsheets would take for a
// formula, and might run.
func noFormula(text string) string {
	if first, _ := utf8.DecodeRuneInString(text); text != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + text
	}
	return text
}

// oneLine returns metadata without line breaks, which some writers of JSON put in
// and some readers of CSV cannot take; empty where there is none.
func oneLine(metadata json.RawMessage) (string, error) {
	if string(metadata) == "null" {
		return "", nil
	}
	var line bytes.Buffer
	err := json.Compact(&line, metadata)
	return line.String(), err
}

type lineWriter struct{ *json.Encoder }

func beginLines(w io.Writer) eventWriter {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return lineWriter{out}
}

func (w lineWriter) write(page []StoredEvent) error {
	for i := range page {
		if err := w.Encode(&page[i]); err != nil {
			return err
		}
	}
	return nil
}

func (lineWriter) close() error { return nil }

// parquetEvent is a row of Parquet. No column is optional: v0.32.0 of the library
// panics on the levels of optional texts.
type parquetEvent struct {
	Seq                   uint64    `parquet:"seq"`
	OccurredAt            time.Time `parquet:"occurred_at,timestamp(nanosecond)"`
	ReceivedAt            time.Time `parquet:"received_at,timestamp(nanosecond)"`
	Stage                 string    `parquet:"stage,dict"`
	SourceName            string    `parquet:"source_name,dict"`
	ServiceName           string    `parquet:"service_name,dict"`
	ArticleURL            string    `parquet:"article_url"`
	CanonicalURL          string    `parquet:"canonical_url"`
	URLHash               string    `parquet:"url_hash"`
	Domain                string    `parquet:"domain,dict"`
	TraceID               string    `parquet:"trace_id"`
	IdempotencyKey        string    `parquet:"idempotency_key"`
	MetadataSchemaVersion uint32    `parquet:"metadata_schema_version"`
	Metadata              string    `parquet:"metadata,json"`
}

type parquetWriter struct {
	*parquet.GenericWriter[parquetEvent]
}

func beginParquet(w io.Writer) eventWriter {
	return parquetWriter{parquet.NewGenericWriter[parquetEvent](w, parquet.Compression(&zstd.Codec{}))}
}

// write makes a row group of a page, of which nothing stays in memory but where
// it is.
func (w parquetWriter) write(page []StoredEvent) error {
	rows := make([]parquetEvent, 0, len(page))
	for _, e := range page {
		rows = append(rows, parquetEvent{
			Seq: e.Seq, OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt, Stage: e.Stage, SourceName: e.SourceName,
			ServiceName: e.ServiceName, ArticleURL: e.ArticleURL, CanonicalURL: e.CanonicalURL, URLHash: e.URLHash,
			Domain: e.Domain, TraceID: e.TraceID, IdempotencyKey: e.IdempotencyKey,
			MetadataSchemaVersion: uint32(e.MetadataSchemaVersion), Metadata: string(e.Metadata),
		})
	}
	if _, err := w.Write(rows); err != nil {
		return err
	}
	return w.Flush()
}

func (w parquetWriter) close() error { return w.Close() }
