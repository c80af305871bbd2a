package uploads

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/netguard"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/storagetest"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/references"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// TestReference: a file that is named becomes an upload as one that is sent does, with the same limits. One that cannot
// be taken leaves nothing, and the caller learns the rule.
func TestReference(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{File: 1000})
	folder := t.TempDir()
	for name, text := range map[string]string{"a.csv": "sku,title\n7,Chair\n8,Table\n", "large.csv": strings.Repeat("x\n", 600)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := storagetest.FTP(t, folder)
	to, err := references.New(references.Config{
		Folder: folder, FTPHosts: []string{at}, Guard: netguard.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	s.handler.Refer(to)
	s.run(schema.Bounds{})
	post := func(path, body string) (int, string) {
		return s.send("POST", path, "application/json", strings.NewReader(body))
	}
	file := "file://" + folder + "/"
	ftp := fmt.Sprintf("ftp://%s:%s@%s/", storagetest.User, storagetest.Password, at)
	for i, reference := range []string{file + "a.csv", ftp + "a.csv"} {
		status, text := post([]string{"/api/v1/uploads", "/api/jobs"}[i], `{"reference":"`+reference+`","mapping":{"title":"title"},"name":"n"}`)
		var received UploadReceived
		if err := json.Unmarshal([]byte(text), &received); status != 201 || err != nil || received.Format != "csv" || received.Size != 26 {
			t.Fatalf("%s: %d %s", reference, status, text)
		}
		j := s.until(uuid.MustParse(received.JobID), "done", ended)
		if j.FileName != "a.csv" || j.Name != "n" || j.Counts[schema.StatusDone] != 2 || j.Mapping["title"] != "title" {
			t.Errorf("%+v", j)
		}
	}
	for body, want := range map[string]string{
		`{"reference":"` + file + `none.csv"}`:                 `"missing"`,
		`{"reference":"file:///etc/passwd"}`:                   `"folder"`,
		`{"reference":"s3://a/b"}`:                             `"off"`,
		`{"reference":"` + file + `a.csv","processor":"none"}`: `"processor"`,
		`{"reference":"` + file + `a.csv","encoding":"none"}`:  `"encoding"`,
		`{"reference":"` + file + `a.csv","hold":"maybe"}`:     `"hold"`,
		`{"reference":"` + file + `a.csv","colour":"red"}`:     `"colour"`,
		`{"refrence":"` + file + `a.csv"}`:                     `the nearest is reference`,
		`{"reference":7}`:                                      `"type"`,
		`{"mapping":[1],"reference":"` + file + `a.csv"}`:      `"mapping"`,
		`{}`: `"required"`, `[]`: `"json"`, `null`: `"json"`, ``: `"json"`, `{`: `"json"`,
	} {
		if status, text := post("/api/v1/uploads", body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, text := post("/api/v1/uploads", `{"reference":"`+ftp+`large.csv"}`); status != 413 {
		t.Errorf("a file that is too large: %d %s", status, text)
	}
	all, err := s.store.List(t.Context(), uploads.Viewer{All: true}, uploads.Filter{}, nil, 100)
	if err != nil || len(all) != 2 {
		t.Errorf("%d uploads, %v", len(all), err)
	}
}

// TestReferenceCut: of a file that a server cuts in the middle, or whose size is beyond what is allowed, nothing is kept, and
// the caller learns the field.
func TestReferenceCut(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{File: 1000})
	length := 300
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(length))
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_, _ = io.WriteString(w, "sku,title\n7,Chair\n8,Ta")
	}))
	defer server.Close()
	s3, err := objects.NewS3(objects.S3Config{Endpoint: server.URL, AccessKey: "a", SecretKey: "b", Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	to, err := references.New(references.Config{S3: s3, S3Buckets: []string{"shop"}})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	s.handler.Refer(to)
	for _, want := range []struct {
		length, status int
		text           string
	}{{300, 503, `"field":"reference"`}, {1001, 413, `"field":"reference"`}} {
		length = want.length
		status, text := s.send("POST", "/api/v1/uploads", "application/json", strings.NewReader(`{"reference":"s3://shop/a.csv"}`))
		if status != want.status || !strings.Contains(text, want.text) {
			t.Errorf("%d bytes: %d %s", length, status, text)
		}
	}
	all, err := s.store.List(t.Context(), uploads.Viewer{All: true}, uploads.Filter{}, nil, 100)
	if err != nil || len(all) != 0 {
		t.Errorf("%d uploads, %v", len(all), err)
	}
}
