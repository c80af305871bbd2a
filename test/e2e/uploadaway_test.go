package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// uploadShown is what is shown of an upload.
type uploadShown struct {
	JobID      string `json:"jobId"`
	QueueState string `json:"queue_state"`
	Name       string `json:"name"`
	Total      int    `json:"total_items"`
	Processed  int    `json:"processed_items"`
	File       struct {
		SHA256 string `json:"sha256"`
	} `json:"file"`
}

// shownUploads are all of the list, whose requests are repeated while Postgres is away.
func shownUploads(s *server) []uploadShown {
	s.t.Helper()
	var list struct{ Items []uploadShown }
	poll(s.t, waitLimit, "the list of uploads", func() bool {
		resp, err := http.Get(s.url("/api/v1/uploads"))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&list) == nil
	})
	return list.Items
}

// rowsFile is a file with so many rows.
func rowsFile(rows int) []byte {
	var file bytes.Buffer
	file.WriteString("sku,title,description\n")
	for no := 1; no <= rows; no++ {
		fmt.Fprintf(&file, "%d,Chair %d,%s\n", no, no, strings.Repeat("oak ", 20))
	}
	return file.Bytes()
}

func sumOf(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// slowForm sends a form with a file, of which it holds the second half back until it is told.
func slowForm(s *server, name string, file []byte, half chan<- struct{}, on <-chan struct{}) (status int, text string, err error) {
	body, pipe := io.Pipe()
	form := multipart.NewWriter(pipe)
	go func() {
		to, err := form.CreateFormFile("file", name)
		if err == nil {
			_, err = to.Write(file[:len(file)/2])
		}
		close(half)
		<-on
		if err == nil {
			_, err = to.Write(file[len(file)/2:])
		}
		if err == nil {
			err = form.Close()
		}
		_ = pipe.CloseWithError(err) // it returns no error
	}()
	resp, err := http.Post(s.url("/api/v1/uploads"), form.FormDataContentType(), body)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

// tusRequest sends a request of the protocol tus.
func tusRequest(s *server, method, at string, body io.Reader, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url("/api/v1/uploads/tus"+at), body)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return resp, err
}

// tusSend sends a file by the protocol, as a client does: after an error it asks how much there is, and goes on there.
// It calls began when an upload is under way.
func tusSend(s *server, name string, file []byte, step int, began func(sent int)) (id string, refused int) {
	s.t.Helper()
	poll(s.t, waitLimit, "an upload to begin", func() bool {
		resp, err := tusRequest(s, http.MethodPost, "", nil, "Upload-Length", strconv.Itoa(len(file)),
			"Upload-Metadata", "filename "+base64.StdEncoding.EncodeToString([]byte(name)))
		if err == nil && resp.StatusCode == http.StatusCreated {
			id = path.Base(resp.Header.Get("Location"))
		}
		return id != ""
	})
	for sent, end := 0, time.Now().Add(waitLimit); ; {
		if time.Now().After(end) {
			s.t.Fatalf("%d of %d bytes were sent by tus", sent, len(file))
		}
		began(sent)
		to := min(sent+step, len(file))
		resp, err := tusRequest(s, http.MethodPatch, "/"+id, bytes.NewReader(file[sent:to]), "Upload-Offset", strconv.Itoa(sent),
			"Content-Type", "application/offset+octet-stream")
		if err == nil && resp.StatusCode == http.StatusNoContent {
			if sent = to; sent == len(file) {
				return id, refused
			}
			continue
		}
		refused++
		if err == nil && resp.StatusCode != http.StatusServiceUnavailable {
			s.t.Fatalf("a part is answered with %d while Postgres is away", resp.StatusCode)
		}
		for ; ; time.Sleep(50 * time.Millisecond) {
			resp, err := tusRequest(s, http.MethodHead, "/"+id, nil)
			if err != nil || resp.StatusCode != http.StatusOK {
				if time.Now().After(end) {
					s.t.Fatalf("nothing says how much has come in: %v, %v", resp, err)
				}
				continue
			}
			at, err := strconv.Atoi(resp.Header.Get("Upload-Offset"))
			if err != nil || at < sent {
				s.t.Fatalf("%d bytes have come in after %d were acknowledged, %v", at, sent, err)
			}
			if sent = at; sent == len(file) {
				return id, refused
			}
			break
		}
	}
}

// TestUploadsWhilePostgresDies: Postgres is killed while a large upload is persisted, while a form comes in, and while a
// file comes in by tus. Each file is one upload, whole, and each of its rows is there once.
func TestUploadsWhilePostgresDies(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	large, formed, parted := rowsFile(150_000), rowsFile(5000), rowsFile(20_000)
	half, on := make(chan struct{}), make(chan struct{})
	close(on)
	if status, text, err := slowForm(s, "large.csv", large, half, on); status != http.StatusCreated || err != nil {
		t.Fatal(status, text, err)
	}
	// A form is half sent, and rows of the large upload are being persisted.
	half, on = make(chan struct{}), make(chan struct{})
	type answer struct {
		status int
		text   string
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		status, text, err := slowForm(s, "form.csv", formed, half, on)
		answered <- answer{status, text, err}
	}()
	<-half
	poll(t, waitLimit, "rows of the large upload", func() bool {
		all := shownUploads(s)
		return len(all) == 1 && all[0].Total > 0
	})
	killPostgres(t, s)
	close(on) // the rest of the form comes while Postgres is away
	killed := false
	id, refused := tusSend(s, "parts.csv", parted, len(parted)/20, func(sent int) {
		if !killed && sent >= len(parted)/2 {
			killed = true
			killPostgres(t, s)
		}
	})
	t.Logf("%d parts were refused", refused)
	a := <-answered
	if a.err != nil || a.status != http.StatusCreated {
		t.Errorf("the form is answered with %d %s, %v", a.status, a.text, a.err)
	}
	want := map[string]struct {
		rows int
		sum  string
	}{"large.csv": {150_000, sumOf(large)}, "form.csv": {5000, sumOf(formed)}, "parts.csv": {20_000, sumOf(parted)}}
	poll(t, waitLimit, "all uploads to be done", func() bool {
		done := 0
		for _, u := range shownUploads(s) {
			if u.QueueState == "DONE" {
				done++
			}
		}
		return done >= len(want)
	})
	all := shownUploads(s)
	if len(all) != len(want) {
		t.Errorf("%d uploads, want %d: %+v", len(all), len(want), all)
	}
	for _, u := range all {
		if w := want[u.Name]; u.Total != w.rows || u.Processed != w.rows || u.File.SHA256 != w.sum {
			t.Errorf("%+v, want %+v", u, w)
		}
		if u.Name == "parts.csv" && u.JobID != id {
			t.Errorf("the upload %s has the file that was sent as %s", u.JobID, id)
		}
		rows := map[string]int{}
		for _, line := range strings.Split(strings.TrimSpace(exportedCSV(s, u.JobID)), "\r\n")[1:] {
			rows[line]++
		}
		if len(rows) != want[u.Name].rows {
			t.Errorf("%s: %d different rows are exported, want %d", u.Name, len(rows), want[u.Name].rows)
		}
	}
	s.stop()
}

// exportedCSV are the results of an upload.
func exportedCSV(s *server, id string) string {
	s.t.Helper()
	resp, err := http.Get(s.url("/api/v1/uploads/" + id + "/export?format=csv"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("export: %d %.200s, %v", resp.StatusCode, text, err)
	}
	return string(text)
}
