package uploads

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// picture is the content of an image.
func picture(n, size int) string {
	noise := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	_, _ = r.Read(noise)
	return "\x89PNG\r\n\x1a\n" + string(noise)
}

// zipped makes a zip of names and contents.
func zipped(t *testing.T, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, files[i+1])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// album makes a zip of images with metadata in CSV, and the rows that are to come of it.
func album(t *testing.T, id func() uuid.UUID, images, size int) (file []byte, want func() [][]string) {
	t.Helper()
	files, about := []string{"note.txt", "no image"}, "sku,image\n"
	for i := range images {
		files = append(files, fmt.Sprintf("p/%d.png", i), picture(i, size))
		if i%10 != 9 {
			about += fmt.Sprintf("s%d,%d.png\n", i, i)
		}
	}
	about += "none,none.png\n"
	file = zipped(t, append(files, "p/metadata.csv", about)...)
	return file, func() (rows [][]string) {
		for _, described := range []bool{true, false} {
			for i := range images {
				if (i%10 != 9) != described {
					continue
				}
				row := []string{fmt.Sprint("s", i), fmt.Sprint(i, ".png")}
				no := i + 1 - i/10
				if !described {
					row, no = []string{"", fmt.Sprintf("p/%d.png", i)}, images-images/10+2+(i+1)/10
				}
				rows = append(rows, append(row, fmt.Sprintf("/api/v1/uploads/%s/images/%d", id(), no)))
			}
		}
		return rows
	}
}

// TestImages: a zip becomes a row for each image, with its metadata and a link to it, also when the process that reads it
// dies again and again. What is wrong with it is rejected. The link answers with the image, and with nothing when the
// upload is deleted.
func TestImages(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	var id uuid.UUID
	file, want := album(t, func() uuid.UUID { return id }, 100, 20_000)
	id = s.made("album.zip", file)
	for range 3 { // each goes on behind the rows that are persisted
		stop := s.run(schema.Bounds{MinRows: 4, MaxRows: 4})
		before := s.job(id).ReadRows
		s.until(id, "further", func(j uploads.Job) bool { return j.ReadRows > before+8 || ended(j) })
		stop()
	}
	s.run(schema.Bounds{MinRows: 4, MaxRows: 40})
	j := s.until(id, "done", ended)
	if u := uploadsapi.UploadOf(j); u.QueueState != schema.Done || u.TotalItems != 100 || u.RejectedRows != 2 || u.File.Format != "zip" ||
		!slices.Equal(u.Columns, []string{"sku", "image", "image_link"}) {
		t.Fatalf("%+v", u)
	}
	rows := s.grid(id)
	same(t, "the grid", rows, want())
	rejects, err := s.store.Rejects(t.Context(), j, 0, 10)
	if err != nil || len(rejects) != 2 || rejects[0].Code != "image_missing" || rejects[1].Code != "not_an_image" ||
		string(rejects[1].Content) != "note.txt" {
		t.Errorf("%+v, %v", rejects, err)
	}
	for _, row := range []int{0, 42, 95} {
		name := row + row/9 // every tenth has no metadata
		if row >= 90 {
			name = (row-90)*10 + 9
		}
		if status, content := s.send(http.MethodGet, rows[row][2], "", nil); status != 200 || content != picture(name, 20_000) {
			t.Errorf("row %v: %d, %d bytes", rows[row], status, len(content))
		}
	}
	answer, err := http.Get(s.url + rows[0][2])
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for header, want := range map[string]string{
		"Content-Type": "image/png", "Content-Disposition": "attachment; filename=0.png", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; sandbox",
	} {
		if got := answer.Header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	for _, path := range []string{rows[0][2] + "0000", strings.Replace(rows[0][2], id.String(), uuid.NewString(), 1)} {
		if status, text := s.send(http.MethodGet, path, "", nil); status != 404 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, text := s.send(http.MethodDelete, "/api/v1/uploads/"+id.String(), "", nil); status != 204 {
		t.Fatal(status, text)
	}
	if status, _ := s.send(http.MethodGet, rows[0][2], "", nil); status != 404 {
		t.Error("the image of an upload that is deleted:", status)
	}
	s.gone(t)
}

// gone waits until nothing of any image is left.
func (s *site) gone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var images int
		if err := s.pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM millrace.upload) + (SELECT count(*) FROM millrace.upload_image)").
			Scan(&images); err != nil {
			t.Fatal(err)
		}
		bucket, err := s.js.Stream(t.Context(), "OBJ__uploads")
		if err != nil {
			t.Fatal(err)
		}
		info, err := bucket.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if images == 0 && info.State.Msgs == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d rows and %d messages are left", images, info.State.Msgs)
		}
	}
}

// TestImageOwners: the link in a payload answers its worker while the item is PROCESSING, and the user and admins always.
// For others there is no image.
func TestImageOwners(t *testing.T) {
	s := openShop(t, auth.Config{Secret: secret})
	s.run(schema.Bounds{})
	embeddedtest.Go(s.t, s.feed.Run)
	s.token("ann", auth.Uploads)
	id := s.made("a.zip", zipped(t, "a.png", picture(1, 10), "m.json", `[{"image":"a.png","sku":"7"}]`), "processor", "enrich")
	s.token("worker", auth.Work)
	it := s.taken(1)[0]
	link := it.Payload.ImageLink
	path, _, keyed := strings.Cut(link, "?key=")
	var in map[string]string
	if err := json.Unmarshal(it.Payload.Payload.Input, &in); err != nil || !keyed || in["sku"] != "7" || in["image_link"] != path {
		t.Fatalf("%+v", it.Payload)
	}
	type call struct {
		sub   string
		scope auth.Scope
		link  string
		want  int
	}
	see := func(calls ...call) {
		t.Helper()
		for _, c := range calls {
			s.token(c.sub, c.scope)
			if status, text := s.send(http.MethodGet, c.link, "", nil); status != c.want || status == 200 && text != picture(1, 10) {
				t.Errorf("%s %s: %d %.200q, want %d", c.sub, c.link, status, text, c.want)
			}
		}
	}
	see(call{"worker", auth.Work, link, 200}, call{"worker", auth.Work, path, 404},
		call{"worker", auth.Work, path + "?key=" + strings.Repeat("0", 64), 404},
		call{"bob", auth.Uploads, path, 404}, call{"bob", auth.Read, link, 403},
		call{"ann", auth.Uploads, path, 200}, call{"root", auth.Admin, path, 200})
	s.token("worker", auth.Work)
	s.report(it, "done", `,"result":{"color":"red"}`)
	s.until(id, "done", ended)
	see(call{"worker", auth.Work, link, 404}, call{"ann", auth.Uploads, path, 200})
	s.token("ann", auth.Uploads)
	if status, text := s.send(http.MethodDelete, "/api/v1/uploads/"+id.String(), "", nil); status != 204 {
		t.Fatal(status, text)
	}
	see(call{"ann", auth.Uploads, path, 404}, call{"root", auth.Admin, path, 404})
}

// TestImageColumn: a held zip is FAILED with a reason where nothing says which column names images, and the mapping says so.
func TestImageColumn(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	s.run(schema.Bounds{})
	file := zipped(t, "a.png", picture(1, 10), "m.csv", "sku;Bild\n7;a.png\n")
	id := s.made("a.zip", file)
	if j := s.until(id, "failed", ended); j.State != schema.Failed || j.LastError == nil || !strings.Contains(*j.LastError, "no column that names images") {
		t.Errorf("%+v", j)
	}
	id = s.made("a.zip", file, "mapping", `{"image":"Bild"}`)
	s.until(id, "done", ended)
	same(t, "as the mapping says", s.grid(id), [][]string{{"7", "a.png", "/api/v1/uploads/" + id.String() + "/images/1"}})
	id = s.made("a.zip", file, "hold", "true")
	if status, text := s.send(http.MethodPost, "/api/v1/uploads/"+id.String()+"/resume", "application/json",
		strings.NewReader(`{"mapping":{"image":"Bild"},"delimiter":";"}`)); status != 200 {
		t.Fatal(status, text)
	}
	if j := s.until(id, "done", ended); j.State != schema.Done || j.Counts[schema.StatusDone] != 1 {
		t.Errorf("%+v", j)
	}
}

// TestImageTus: a zip comes by tus as any file does.
func TestImageTus(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	s.run(schema.Bounds{})
	file := zipped(t, "a.png", picture(1, 700_000), "b.png", picture(2, 700_000))
	url, id := s.begun(len(file), "filename", "a.zip")
	for from := 0; from < len(file); from += 300_000 {
		if a := s.patch(url, from, file[from:min(from+300_000, len(file))]); a.status != 204 {
			t.Fatal(a)
		}
	}
	if j := s.until(id, "done", ended); j.State != schema.Done || j.Counts[schema.StatusDone] != 2 {
		t.Fatalf("%+v", j)
	}
	for i, row := range s.grid(id) {
		if status, content := s.send(http.MethodGet, row[1], "", nil); status != 200 || content != picture(i+1, 700_000) {
			t.Errorf("%v: %d, %d bytes", row, status, len(content))
		}
	}
}
