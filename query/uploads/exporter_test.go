package uploads

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"
	"github.com/millrace-io/millrace/schemas/object"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

var everybody = uploads.Viewer{All: true}

func (s *site) exporter(cfg ExporterConfig) *Exporter {
	s.t.Helper()
	cfg.Temp = s.t.TempDir()
	x, err := NewExporter(cfg, s.store, s.files, embeddedtest.Log(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

func (s *site) begin(j uploads.Job, format string) uploads.Export {
	s.t.Helper()
	e, err := s.store.BeginExport(s.t.Context(), everybody, j.ID, format, false)
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

func (s *site) next(x *Exporter) {
	s.t.Helper()
	if made, err := x.Next(s.t.Context()); !made || err != nil {
		s.t.Fatalf("made is %v, %v", made, err)
	}
}

// stored is how many messages the buckets of files and exports have.
func (s *site) stored() (all uint64) {
	s.t.Helper()
	for _, name := range []string{"OBJ__uploads", "OBJ__exports_packed"} {
		bucket, err := s.js.Stream(s.t.Context(), name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		all += bucket.CachedInfo().State.Msgs
	}
	return all
}

func (s *site) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) done(owner, name, file string) uploads.Job {
	s.t.Helper()
	j := s.fill(owner, name, file, nil)
	for {
		moved, err := s.store.Move(s.t.Context(), j, schema.StatusDone, 0, 10_000)
		if err != nil {
			s.t.Fatal(err)
		}
		if moved.Items == 0 {
			return j
		}
	}
}

// TestExportInBackground: the file of an export is that of a request that waits for it, it is its user's alone, and
// it is gone when it has expired.
func TestExportInBackground(t *testing.T) {
	s := serve(t, auth.Config{Secret: secret})
	j := s.done("ann", "x.csv", table(2_000))
	before, x := s.stored(), s.exporter(ExporterConfig{})
	s.token("ann", auth.Uploads)
	base := "/api/v1/uploads/" + j.ID.String()
	for _, format := range []string{"csv", "ndjson", "ndjson.zst", "xlsx", "parquet"} {
		id := s.begin(j, format).ID.String()
		s.next(x)
		e := read[uploadsapi.UploadExport](s, base+"/exports/"+id)
		if e.State != uploads.ExportDone || e.Rows != 2_000 || e.TotalRows != 2_000 || e.ExpiresAt == nil || e.Size == 0 ||
			e.Link != id+"/file" {
			t.Fatalf("%s: %+v", format, e)
		}
		_, file := s.get(base + "/exports/" + id + "/file")
		if sum := sha256.Sum256([]byte(file)); len(file) != int(e.Size) || e.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: %d bytes with %x, want %d with %s", format, len(file), sum, e.Size, e.SHA256)
		}
		if _, want := s.get(base + "/export?format=" + format); format != "xlsx" && file != want { // XLSX has the time
			t.Errorf("%s: the file of %d bytes is not that of %d bytes", format, len(file), len(want))
		}
		if format == "parquet" {
			if columns, rows := readParquet(t, []byte(file)); !slices.Equal(columns, []string{"sku", "title", "price"}) || len(rows) != 2_000 {
				t.Errorf("%q, %d rows", columns, len(rows))
			}
		}
	}
	all := read[UploadExports](s, base+"/exports").Items
	if len(all) != 5 || all[0].Format != "parquet" || all[0].Link != "exports/"+all[0].ExportID+"/file" {
		t.Errorf("%+v", all)
	}
	s.token("eve", auth.Uploads)
	for _, path := range []string{"", "/" + all[0].ExportID, "/" + all[0].ExportID + "/file"} {
		if status, text := s.get(base + "/exports" + path); status != 404 {
			t.Errorf("another user: %s: %d %s", path, status, text)
		}
	}
	s.token("ann", auth.Uploads)
	s.exec("UPDATE millrace.upload_export SET expires_at = now() WHERE id = $1", all[0].ExportID)
	for _, id := range []string{all[0].ExportID, uuid.NewString(), "x"} {
		if status, text := s.get(base + "/exports/" + id + "/file"); status != 404 || !strings.Contains(text, "exportId") {
			t.Errorf("%d %s", status, text)
		}
	}
	s.exec("UPDATE millrace.upload_export SET expires_at = now()")
	if err := s.store.SweepExports(t.Context(), s.files); err != nil {
		t.Fatal(err)
	}
	if after := s.stored(); after != before {
		t.Errorf("%d messages are stored, and before the exports %d", after, before)
	}
}

// TestExportsArePacked: texts are stored as zstd, and their bound is that of the file; a file that an earlier version has
// stored as it is can be read.
func TestExportsArePacked(t *testing.T) {
	s := serve(t, auth.Config{Secret: secret})
	e := uploads.Export{ID: uuid.New(), Format: "csv", Attempts: 1}
	text := strings.Repeat("sku,title\r\n", 300_000)
	stored, err := s.files.PutExport(t.Context(), e, int64(len(text)), strings.NewReader(text))
	if err != nil || stored.Size != int64(len(text)) || stored.SHA256 != sha256.Sum256([]byte(text)) {
		t.Fatal(stored.Size, err)
	}
	bucket, err := s.js.Stream(t.Context(), "OBJ__exports_packed")
	if err != nil {
		t.Fatal(err)
	}
	if c := bucket.CachedInfo().Config.Compression; c != jetstream.NoCompression {
		t.Errorf("the server compresses what is compressed: %s", c)
	}
	if info, err := bucket.Info(t.Context()); err != nil || info.State.Bytes > uint64(len(text)/4) {
		t.Errorf("%d bytes are stored, %v", info.State.Bytes, err)
	}
	same := func(what string) {
		t.Helper()
		from, err := s.files.OpenExport(t.Context(), e)
		if err != nil {
			t.Fatal(what, err)
		}
		defer from.Close()
		if got, err := io.ReadAll(from); err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", what, len(got), err)
		}
	}
	same("packed")
	if err := s.files.RemoveExport(t.Context(), e, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.files.OpenExport(t.Context(), e); !uploads.Lost(err) {
		t.Error("one that is removed:", err)
	}
	if _, err := s.files.PutExport(t.Context(), e, int64(len(text))-1, strings.NewReader(text)); !errors.Is(err, uploads.ErrTooLarge) {
		t.Error("one that is too large:", err)
	}
	var zst bytes.Buffer
	w, err := zstd.NewWriter(&zst, zstd.WithWindowSize(1<<20))
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	for suffix, content := range map[string]string{"": text, ".zst": zst.String()} {
		o := object.Name{Bucket: "_uploads", Key: "exports/" + e.ID.String() + "-1" + suffix}
		if _, err := objects.NewNATS(s.js, 1).PutAs(t.Context(), o, e.ID.String()+"-1", 1<<30, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		same("of an earlier version" + suffix)
		if err := s.files.RemoveExport(t.Context(), e, 1); err != nil {
			t.Fatal(err)
		}
	}
	if s.stored() != 0 {
		t.Error(s.stored(), "messages are left")
	}
}

// TestExportTakenOver: an export whose process has died is made by another one, nothing of the first attempt is left,
// and what the first process still does changes nothing.
func TestExportTakenOver(t *testing.T) {
	s := serve(t, auth.Config{})
	j := s.done("", "x.csv", table(100))
	before := s.stored()
	s.begin(j, "csv")
	first, claimed, err := s.store.ClaimExport(t.Context())
	if err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	stored, err := s.files.PutExport(t.Context(), first, 1<<20, strings.NewReader("a part"))
	if err != nil {
		t.Fatal(err)
	}
	x := s.exporter(ExporterConfig{})
	if made, err := x.Next(t.Context()); made || err != nil {
		t.Fatalf("an export is made twice at one time: %v", err)
	}
	// The clock of Postgres is set back: the process that had the export may be gone.
	s.exec("UPDATE millrace.upload_export SET due_at = due_at + interval '10 hours'")
	s.next(x)
	if err := s.store.FinishExport(t.Context(), first, stored, 1, time.Hour); !errors.Is(err, uploads.ErrStopped) {
		t.Errorf("the first process ends the export: %v", err)
	}
	if err := s.store.NoteExport(t.Context(), first, 1, 1); !errors.Is(err, uploads.ErrStopped) {
		t.Errorf("the first process notes: %v", err)
	}
	e, err := s.store.Export(t.Context(), everybody, j.ID, first.ID)
	if err != nil || e.State != uploads.ExportDone || e.Attempts != 2 || e.Rows != 100 {
		t.Errorf("%+v, %v", e, err)
	}
	if after := s.stored(); after != before+2 { // a chunk, and what describes it
		t.Errorf("%d messages, %d before", after, before)
	}
	s.begin(j, "csv")
	s.exec("UPDATE millrace.upload_export SET attempts = 5 WHERE state = 'QUEUED'")
	s.next(x)
	if all, err := s.store.Exports(t.Context(), everybody, j.ID); err != nil || all[0].State != uploads.ExportFailed {
		t.Errorf("an export whose processes die goes on: %+v, %v", all, err)
	}
}

// TestExportEnds: an export that is deleted while it is made ends, as do those of an upload that is deleted. What
// cannot be exported says why, and the exports of a user are bounded.
func TestExportEnds(t *testing.T) {
	s := serve(t, auth.Config{})
	j := s.done("", "x.csv", table(100))
	before, ctx := s.stored(), t.Context()
	x := s.exporter(ExporterConfig{MaxBytes: 100})
	e := s.begin(j, "csv")
	s.next(x)
	if status, text := s.get("/api/v1/uploads/" + j.ID.String() + "/exports/" + e.ID.String() + "/file"); status != 409 ||
		!strings.Contains(text, "more bytes") {
		t.Errorf("%d %s", status, text)
	}
	s.begin(j, "csv")
	e, _, err := s.store.ClaimExport(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.DropExport(ctx, uploads.Viewer{Subject: "eve"}, j.ID, e.ID); !errors.Is(err, uploads.ErrNotFound) {
		t.Errorf("another user deletes it: %v", err)
	}
	if err := s.store.DropExport(ctx, everybody, j.ID, e.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.store.NoteExport(ctx, e, 1, 1); !errors.Is(err, uploads.ErrStopped) {
		t.Errorf("a deleted export goes on: %v", err)
	}
	for have := 1; have < 20; have++ {
		s.begin(j, "ndjson")
	}
	var limit *uploads.LimitError
	if _, err := s.store.BeginExport(ctx, everybody, j.ID, "csv", false); !errors.As(err, &limit) {
		t.Errorf("an export beyond the limit: %v", err)
	}
	s.next(s.exporter(ExporterConfig{}))
	if left, err := s.store.RemoveExports(ctx, j, s.files); !left || err != nil {
		t.Errorf("the export of a process that may live is deleted: %v", err)
	}
	s.exec("UPDATE millrace.upload_export SET due_at = now()")
	if left, err := s.store.RemoveExports(ctx, j, s.files); left || err != nil {
		t.Errorf("exports are left: %v", err)
	}
	if after := s.stored(); after != before {
		t.Errorf("%d messages, %d before", after, before)
	}
}

// TestExporterRuns: an exporter makes what is asked for until it ends.
func TestExporterRuns(t *testing.T) {
	s := serve(t, auth.Config{})
	j := s.done("", "x.csv", table(3))
	embeddedtest.Go(t, s.exporter(ExporterConfig{}).Run)
	e := s.begin(j, "csv")
	file := s.download("/api/v1/uploads/" + j.ID.String() + "/exports/" + e.ID.String() + "/file")
	if !bytes.HasPrefix(file, []byte("sku,title,price\r\n")) {
		t.Errorf("%q", file)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.exporter(ExporterConfig{}).Run(ctx); err != nil {
		t.Error(err)
	}
}
