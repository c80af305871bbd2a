package uploads

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/references"
)

// watched is a site with a watched folder.
type watched struct {
	*site
	folder  string
	watcher *Watcher
}

func watch(t *testing.T, cfg WatchConfig) *watched {
	t.Helper()
	w := &watched{site: serve(t, auth.Config{Secret: secret}, uploads.Limits{File: 1000}), folder: t.TempDir()}
	place, err := references.NewPlace(references.Config{}, "file://"+w.folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = place.Close() })
	cfg.Places, cfg.User = []*references.Place{place}, "shop"
	if w.watcher, err = NewWatcher(cfg, w.handler, embeddedtest.Log(t)); err != nil {
		t.Fatal(err)
	}
	w.watcher.Register(endpoint.API{Server: w.srv, Auth: w.auth, Log: embeddedtest.Log(t)})
	w.srv.Also("/api/ingestion", "/ingestion")
	w.describe()
	w.token("root", auth.Admin)
	return w
}

func (w *watched) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.folder, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// scan asks for a look, in which what was seen before has settled.
func (w *watched) scan() (scan Scan) {
	w.t.Helper()
	status, text := w.send("POST", "/api/ingestion/scan", "", nil)
	if err := json.Unmarshal([]byte(text), &scan); status != 200 || err != nil {
		w.t.Fatalf("%d %s", status, text)
	}
	return scan
}

// settle has all files that are seen count as unchanged for long enough: that time is over, or the clock of Postgres
// was set back.
func (w *watched) settle(due string) {
	w.t.Helper()
	if _, err := w.pool.Exec(w.t.Context(), "UPDATE millrace.upload_watched SET due_at = "+due); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) uploads() (names []string) {
	w.t.Helper()
	all, err := w.store.List(w.t.Context(), uploads.Viewer{Subject: "shop"}, uploads.Filter{}, nil, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range all {
		names = append(names, j.FileName)
	}
	return names
}

// expect looks twice, and compares what the second look did and the uploads that there are.
func (w *watched) expect(when string, taken, same, all int) {
	w.t.Helper()
	w.scan()
	w.settle([]string{"now()", "now() + interval '5 minutes'"}[all%2])
	scan := w.scan()
	if len(scan.Taken) != taken || scan.Same != same || len(scan.Failed) != 0 {
		w.t.Errorf("%s: %+v", when, scan)
	}
	if again := w.scan(); len(again.Taken)+again.Same+again.Waiting+len(again.Failed) != 0 {
		w.t.Errorf("%s: another look does something: %+v", when, again)
	}
	if names := w.uploads(); len(names) != all {
		w.t.Errorf("%s: uploads of %q, want %d", when, names, all)
	}
}

// TestWatch: each content is taken once, whatever happens to its file.
func TestWatch(t *testing.T) {
	w := watch(t, WatchConfig{Settle: 2 * time.Minute})
	w.write("a.csv", "x\n1\n")
	w.write("b.csv", "x\n2\n")
	w.write("c.csv.part", "x\n3")
	w.expect("new files", 2, 0, 2)
	w.write("a.csv", "x\n1\n11\n")
	w.expect("overwritten", 1, 0, 3)
	if err := os.Chtimes(filepath.Join(w.folder, "a.csv"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	w.expect("overwritten with the same", 0, 1, 3)
	if err := os.Rename(filepath.Join(w.folder, "a.csv"), filepath.Join(w.folder, "d.csv")); err != nil {
		t.Fatal(err)
	}
	w.expect("renamed", 0, 1, 3)
	w.write("c.csv.part", "x\n3\n")
	if err := os.Rename(filepath.Join(w.folder, "c.csv.part"), filepath.Join(w.folder, "c.csv")); err != nil {
		t.Fatal(err)
	}
	w.expect("written whole", 1, 0, 4)
	if err := os.Remove(filepath.Join(w.folder, "b.csv")); err != nil {
		t.Fatal(err)
	}
	w.expect("deleted", 0, 0, 4)
	w.write("b.csv", "x\n2\n")
	w.expect("there again", 0, 1, 4)
	w.token("eve", auth.Uploads)
	if status, text := w.send("POST", "/api/v1/ingestion/scan", "", nil); status != 403 {
		t.Errorf("not an admin: %d %s", status, text)
	}
}

// TestWatchHalfWritten: a file is not taken while it changes, and while it is empty.
func TestWatchHalfWritten(t *testing.T) {
	w := watch(t, WatchConfig{Settle: time.Hour})
	w.write("a.csv", "")
	if scan := w.scan(); scan.Waiting != 1 || len(scan.Taken) != 0 {
		t.Errorf("%+v", scan)
	}
	for _, text := range []string{"x\n1", "x\n1\n2", "x\n1\n2\n3\n"} {
		w.settle("now()")
		w.write("a.csv", text)
		if scan := w.scan(); scan.Waiting != 1 || len(scan.Taken) != 0 {
			t.Errorf("%q: %+v", text, scan)
		}
	}
	w.settle("now()")
	if scan := w.scan(); len(scan.Taken) != 1 {
		t.Errorf("%+v", scan)
	}
}

// TestWatchFails: a file that cannot be taken is named with its reason, is not tried again until it changes where it is
// itself the reason, and is no upload.
func TestWatchFails(t *testing.T) {
	w := watch(t, WatchConfig{Settle: time.Nanosecond})
	w.write("large.csv", strings.Repeat("x\n", 600))
	w.scan()
	w.settle("now()")
	scan := w.scan()
	if len(scan.Failed)+len(scan.Taken) == 0 {
		scan = w.scan()
	}
	status, text := w.send("GET", "/api/v1/ingestion/files?state=FAILED", "", nil)
	if status != 200 || !strings.Contains(text, `"path":"large.csv"`) || !strings.Contains(text, "more than 1000 bytes") {
		t.Errorf("%+v; %d %s", scan, status, text)
	}
	if again := w.scan(); len(again.Failed) != 0 {
		t.Errorf("it is tried again: %+v", again)
	}
	if names := w.uploads(); names != nil {
		t.Errorf("%q", names)
	}
	w.write("large.csv", "x\n1\n")
	w.scan()
	w.settle("now()")
	w.scan()
	if names := w.uploads(); len(names) != 1 {
		t.Errorf("%q", names)
	}
	if err := os.RemoveAll(w.folder); err != nil {
		t.Fatal(err)
	}
	if scan = w.scan(); len(scan.Failed) != 1 || scan.Failed[0].Path != "" || !strings.Contains(scan.Failed[0].Error, "not there") {
		t.Errorf("%+v", scan)
	}
	if status, text = w.send("GET", "/api/v1/ingestion/files", "", nil); status != 200 || !strings.Contains(text, "not there") {
		t.Errorf("%d %s", status, text)
	}
}

// TestWatchTogether: looks at one time, and a watcher in the background, take each file once.
func TestWatchTogether(t *testing.T) {
	w := watch(t, WatchConfig{Settle: time.Nanosecond, Every: time.Millisecond})
	for i := range 10 {
		w.write(string(rune('a'+i))+".csv", "x\n"+strings.Repeat("1\n", i+1))
	}
	embeddedtest.Go(t, w.watcher.Run)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 5 {
				if _, err := w.watcher.Scan(t.Context(), time.Time{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for end := time.Now().Add(time.Minute); len(w.uploads()) < 10 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if names := w.uploads(); len(names) != 10 {
		t.Errorf("%q", names)
	}
}

// TestWatchApart: a place whose list does not end holds up neither other places nor those who ask for a look.
func TestWatchApart(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = rw.Write([]byte(" "))
			rw.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}))
	t.Cleanup(slow.Close)
	s3, err := objects.NewS3(objects.S3Config{Endpoint: slow.URL, AccessKey: "a", SecretKey: "b", Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	hung, err := references.NewPlace(references.Config{S3: s3}, "s3://shop/in/")
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, WatchConfig{Settle: time.Nanosecond, Every: time.Millisecond})
	w.watcher.cfg.Places = append([]*references.Place{hung}, w.watcher.cfg.Places...)
	w.write("a.csv", "x\n1\n")
	scan, err := w.watcher.Scan(t.Context(), time.Now().Add(time.Second))
	if err != nil || scan.Places != 2 || scan.Files != 1 || !scan.More || len(scan.Failed) > 0 {
		t.Errorf("a look for a second: %+v, %v", scan, err)
	}
	embeddedtest.Go(t, w.watcher.Run)
	for end := time.Now().Add(time.Minute); len(w.uploads()) == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if names := w.uploads(); len(names) != 1 {
		t.Errorf("%q", names)
	}
}
