package uploads

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/uploads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// tusAlone receives files in a process of its own, until it is killed. It prints where.
func tusAlone(dsn, url string) error {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	queue.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(url, nats.UserInfo("millrace", "test"))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	store, err := uploads.New(pool, uploads.Limits{}, uploads.Attempts{})
	if err != nil {
		return err
	}
	feed, _, err := feeder(store, nil, log)
	if err != nil {
		return err
	}
	a := auth.New(auth.Config{})
	h, err := New(schema.Bounds{}, store, uploads.NewFiles(objects.NewNATS(js, 1)), feed, a, log)
	if err != nil {
		return err
	}
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		return err
	}
	h.Register(endpoint.API{Server: srv, Auth: a, Log: log})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	return http.Serve(listener, srv.Handler()) //nolint:gosec // it lives for a test
}

// tusAnswered is what a request by tus is answered.
type tusAnswered struct {
	status int
	header http.Header
	text   string
}

func (a tusAnswered) String() string { return fmt.Sprint(a.status, " ", a.header, " ", a.text) }

// offset is Upload-Offset; -1: there is none.
func (a tusAnswered) offset() int {
	n, err := strconv.Atoi(a.header.Get("Upload-Offset"))
	if err != nil {
		return -1
	}
	return n
}

// says tells whether the answer is a problem with a status, of a field and a code.
func (a tusAnswered) says(status int, field, code string) bool {
	var p httpapi.Problem
	if a.status != status || json.Unmarshal([]byte(a.text), &p) != nil {
		return false
	}
	for _, e := range p.Errors {
		if e.Field == field && e.Code == code {
			return true
		}
	}
	return false
}

// tus sends a request with headers, in pairs.
func (s *site) tus(method, url string, body io.Reader, headers ...string) tusAnswered {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, url, body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Tus-Resumable", "1.0.0")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/offset+octet-stream")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
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
	return tusAnswered{answer.StatusCode, answer.Header, string(text)}
}

// metadata encodes pairs as Upload-Metadata has them.
func metadata(pairs ...string) string {
	var all []string
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, pairs[i]+" "+base64.StdEncoding.EncodeToString([]byte(pairs[i+1])))
	}
	return strings.Join(all, ",")
}

func (s *site) tusURL() string { return s.url + "/api/v1/uploads/tus" }

// begun begins an upload and returns its address and its id.
func (s *site) begun(size int, pairs ...string) (string, uuid.UUID) {
	s.t.Helper()
	got := s.tus(http.MethodPost, s.tusURL(), nil, "Upload-Length", strconv.Itoa(size), "Upload-Metadata", metadata(pairs...))
	at, err := url.Parse(got.header.Get("Location"))
	if err != nil || got.status != http.StatusCreated || got.header.Get("Upload-Expires") == "" {
		s.t.Fatal(got, err)
	}
	base, err := url.Parse(s.tusURL())
	if err != nil {
		s.t.Fatal(err)
	}
	full := base.ResolveReference(at).String()
	return full, uuid.MustParse(full[strings.LastIndexByte(full, '/')+1:])
}

func (s *site) patch(url string, offset int, part []byte) tusAnswered {
	s.t.Helper()
	return s.tus(http.MethodPatch, url, bytes.NewReader(part), "Upload-Offset", strconv.Itoa(offset))
}

// table is a CSV of about so many bytes.
func table(size int) []byte {
	out := bytes.NewBufferString("a,b\n")
	for i := 0; out.Len() < size; i++ {
		fmt.Fprintf(out, "%d,%064x\n", i, rand.Uint64())
	}
	return out.Bytes()
}

// received checks that an upload has a file.
func (s *site) received(id uuid.UUID, file []byte) uploads.Job {
	s.t.Helper()
	sum := sha256.Sum256(file)
	j := s.job(id)
	from, err := s.files.Open(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	defer from.Close()
	kept, err := io.ReadAll(from)
	if err != nil || !bytes.Equal(kept, file) || !bytes.Equal(j.SHA256, sum[:]) || j.Size != int64(len(file)) {
		s.t.Errorf("%d bytes are kept, %v; the upload has %d and %x, want %d and %x", len(kept), err, j.Size, j.SHA256, len(file), sum)
	}
	return j
}

// TestTus: a file that comes in parts is an upload like any other.
func TestTus(t *testing.T) {
	s := serve(t, auth.Config{Secret: secret}, uploads.Limits{})
	s.run(schema.Bounds{})
	s.token("ann", auth.Uploads)
	options := s.tus(http.MethodOptions, s.tusURL(), nil)
	if options.status != 200 || options.header.Get("Tus-Max-Size") != "2147483648" ||
		options.header.Get("Tus-Extension") != "creation,creation-with-upload,termination,expiration" {
		t.Error(options)
	}
	text, want := sample(3000)
	file := []byte(text)
	sum := sha256.Sum256(file)
	at, id := s.begun(len(file), "filename", "shop/chairs.csv", "name", "Chairs", "mapping", `{"title":"ProductName"}`,
		"hold", "true", "sha256", hex.EncodeToString(sum[:]))
	offset := 0
	for offset < len(file) {
		if got := s.tus(http.MethodHead, at, nil); got.status != 200 || got.offset() != offset || got.header.Get("Upload-Expires") == "" ||
			got.header.Get("Upload-Length") != strconv.Itoa(len(file)) || !strings.Contains(got.header.Get("Upload-Metadata"), "filename") {
			t.Fatal(got)
		}
		if status, _ := s.send(http.MethodPost, "/api/v1/uploads/"+id.String()+"/pause", "", nil); status != 404 {
			t.Error("an upload that is still coming in is there:", status)
		}
		next := min(offset+rand.IntN(200_000), len(file))
		if got := s.patch(at, offset, file[offset:next]); got.status != 204 || got.offset() != next {
			t.Fatal(got)
		}
		offset = next
	}
	j := s.received(id, file)
	if j.State != schema.Paused || j.Name != "Chairs" || j.FileName != "chairs.csv" || j.Mapping["title"] != "ProductName" || j.Owner != "ann" {
		t.Errorf("%+v", j)
	}
	if got := s.tus(http.MethodHead, at, nil); got.status != 200 || got.offset() != len(file) || got.header.Get("Upload-Expires") != "" {
		t.Error("the last answer may have been lost:", got)
	}
	if got := s.patch(at, len(file), nil); got.status != 204 {
		t.Error(got)
	}
	if got := s.tus(http.MethodDelete, at, nil); !got.says(409, "jobId", "state") {
		t.Error(got)
	}
	if status, text := s.send(http.MethodPost, "/api/v1/uploads/"+id.String()+"/resume", "", nil); status != 200 {
		t.Fatal(status, text)
	}
	s.until(id, "done", ended)
	same(t, "by tus", s.grid(id), want)
	// The first part may come with the request that begins the upload, and a file may be empty.
	for _, file := range []string{"a\n1\n", ""} {
		got := s.tus(http.MethodPost, s.tusURL(), strings.NewReader(file), "Upload-Length", strconv.Itoa(len(file)),
			"Content-Type", "application/offset+octet-stream")
		if got.status != 201 {
			t.Fatal(got)
		}
		s.received(uuid.MustParse(strings.TrimPrefix(got.header.Get("Location"), "tus/")), []byte(file))
	}
}

// TestTusAttacks: what breaks a rule is told by name, and leaves nothing.
func TestTusAttacks(t *testing.T) {
	s := serve(t, auth.Config{Secret: secret}, uploads.Limits{File: 1000, Open: 3, Bytes: 2500})
	s.token("ann", auth.Uploads)
	for i, c := range []struct {
		headers     []string
		status      int
		field, code string
	}{
		{[]string{"Upload-Length", "1001"}, 413, "Upload-Length", "body_size"},
		{[]string{"Upload-Length", "9223372036854775807"}, 413, "Upload-Length", "body_size"},
		{[]string{"Upload-Length", "-1"}, 400, "Upload-Length", "length"},
		{[]string{"Upload-Length", "99999999999999999999"}, 400, "Upload-Length", "length"},
		{[]string{}, 400, "Upload-Length", "length"},
		{[]string{"Upload-Defer-Length", "1"}, 400, "Upload-Defer-Length", "unsupported"},
		{[]string{"Upload-Length", "9", "Upload-Concat", "partial"}, 400, "Upload-Concat", "unsupported"},
		{[]string{"Upload-Length", "9", "Upload-Checksum", "sha1 x"}, 400, "Upload-Checksum", "unsupported"},
		{[]string{"Upload-Length", "9", "Content-Type", "text/plain"}, 415, "Content-Type", "content_type"},
		{[]string{"Upload-Length", "9", "Tus-Resumable", "0.2.2"}, 412, "Tus-Resumable", "version"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", metadata("colour", "red")}, 400, "colour", "field_unknown"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", metadata("name", "a", "name", "b")}, 400, "name", "twice"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", metadata("name", "a\x00")}, 400, "name", "name"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", metadata("filename", "\xff")}, 400, "file", "name"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", metadata("format", "pdf")}, 400, "format", "format"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", metadata("encoding", "klingon")}, 400, "encoding", "encoding"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", metadata("processor", "crawl")}, 400, "processor", "processor"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", metadata("processor", "a\x00")}, 400, "processor", "processor"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", metadata("sha256", "abc")}, 400, "sha256", "sha256"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", "name %"}, 400, "name", "base64"},
		{[]string{"Upload-Length", "9", "Upload-Metadata", metadata("name", strings.Repeat("x", 40_000))}, 400, "Upload-Metadata", "length"},
	} {
		if got := s.tus(http.MethodPost, s.tusURL(), nil, c.headers...); !got.says(c.status, c.field, c.code) {
			t.Errorf("%d: %s, want %d %s:%s", i, got, c.status, c.field, c.code)
		}
	}
	at, id := s.begun(1000, "filename", "../../etc/passwd")
	for i, c := range []struct {
		offset      string
		part        int
		status      int
		field, code string
	}{
		{"1", 10, 409, "Upload-Offset", "offset"},
		{"-1", 10, 400, "Upload-Offset", "offset"},
		{"x", 10, 400, "Upload-Offset", "offset"},
		{"0", 1001, 413, "", "body_size"},
	} {
		if got := s.tus(http.MethodPatch, at, bytes.NewReader(make([]byte, c.part)), "Upload-Offset", c.offset); !got.says(c.status, c.field, c.code) {
			t.Errorf("%d: %s", i, got)
		}
	}
	// Nobody knows the length of a body that comes in chunks.
	if got := s.tus(http.MethodPatch, at, io.LimitReader(rand.NewChaCha8([32]byte{}), 999_999), "Upload-Offset", "0"); got.status != 413 {
		t.Error("more bytes than the file has:", got)
	}
	if got := s.tus(http.MethodPatch, at, strings.NewReader("x"), "Upload-Offset", "0", "Content-Type", "text/csv"); got.status != 415 {
		t.Error(got)
	}
	for _, who := range []string{"ben", ""} {
		s.token(who, auth.Uploads)
		for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
			want := map[string]int{"ben": 404, "": 403}[who]
			if got := s.tus(method, at, nil, "Upload-Offset", "0"); got.status != want {
				t.Errorf("%s of another's by %q: %s", method, who, got)
			}
		}
	}
	s.token("ann", auth.Uploads)
	for _, path := range []string{"/..%2f" + id.String(), "/" + strings.ToUpper(id.String()) + "x", "/" + uuid.NewString(), "/%00", "/" + strings.Repeat("9", 4000)} {
		if got := s.tus(http.MethodHead, s.tusURL()+path, nil); got.status != 404 && got.status != 400 {
			t.Errorf("%s: %s", path, got)
		}
	}
	// What was announced counts, also before it is there.
	s.begun(1000)
	if got := s.tus(http.MethodPost, s.tusURL(), nil, "Upload-Length", "501"); !got.says(409, "", "limit_bytes") {
		t.Error(got)
	}
	third, _ := s.begun(10)
	if got := s.tus(http.MethodPost, s.tusURL(), nil, "Upload-Length", "1"); !got.says(409, "", "limit_open_uploads") {
		t.Error(got)
	}
	if got := s.tus(http.MethodDelete, third, nil); got.status != 204 {
		t.Error(got)
	}
	if got := s.tus(http.MethodHead, third, nil); got.status != 404 {
		t.Error(got)
	}
	// A file that is not the one that was announced is refused, and gone.
	wrong, _ := s.begun(4, "sha256", strings.Repeat("0", 64))
	if got := s.patch(wrong, 0, []byte("a\n1\n")); !got.says(400, "sha256", "sha256") {
		t.Error(got)
	}
	if got := s.tus(http.MethodHead, wrong, nil); got.status != 404 {
		t.Error(got)
	}
}

// TestTusSweep: what is not continued is deleted with its parts.
func TestTusSweep(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{Parts: time.Millisecond})
	at, _ := s.begun(10)
	if got := s.patch(at, 0, []byte("a,b\n")); got.status != 204 {
		t.Fatal(got)
	}
	s.run(schema.Bounds{})
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var left int
		if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM millrace.upload").Scan(&left); err != nil {
			t.Fatal(err)
		}
		bucket, err := s.js.Stream(t.Context(), "OBJ__uploads")
		if err != nil {
			t.Fatal(err)
		}
		if left == 0 && bucket.CachedInfo().State.Msgs == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d uploads and %d parts are left", left, bucket.CachedInfo().State.Msgs)
		}
	}
	if got := s.patch(at, 4, []byte("1,2\n3\n")); got.status != 404 {
		t.Error(got)
	}
}

// TestTusIdle: files that wait for their next parts keep nobody from uploads, and end as such when there is room.
func TestTusIdle(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{Open: 2})
	file := table(1000)
	length := strconv.Itoa(len(file))
	refused := func(what string) {
		t.Helper()
		if got := s.tus(http.MethodPost, s.tusURL(), nil, "Upload-Length", length); got.status != 409 {
			t.Errorf("%s: %v", what, got)
		}
	}
	idle := func() {
		t.Helper()
		if _, err := s.pool.Exec(t.Context(), "UPDATE millrace.upload SET last_heartbeat = now() - interval '6 minutes' WHERE received_at IS NULL"); err != nil {
			t.Fatal(err)
		}
	}
	first, id := s.begun(len(file), "filename", "x.csv")
	s.begun(len(file))
	refused("a third one")
	idle()
	held := []uuid.UUID{s.made("a.csv", file, "hold", "true"), s.made("b.csv", file, "hold", "true")}
	if got := s.patch(first, 0, file); got.status != 409 {
		t.Errorf("a file that has waited, while two uploads are open: %v", got)
	}
	if got := s.tus(http.MethodHead, first, nil); got.status != 409 {
		t.Errorf("it is asked for: %v", got)
	}
	for _, id := range held {
		if err := s.store.Delete(t.Context(), uploads.Viewer{All: true}, id); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.tus(http.MethodHead, first, nil); got.status != 200 || got.offset() != len(file) {
		t.Errorf("it is asked for when there is room: %v", got)
	}
	s.received(id, file)
	for range 19 { // ten times two wait, one of them from above
		idle()
		s.begun(len(file))
	}
	idle()
	refused("one beside as many as may wait")
}

// TestTusLastAnswer: a process stores the last part, and dies before it can tell so. Whoever asks finds the upload.
func TestTusLastAnswer(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	file := table(1 << 20)
	at, id := s.begun(len(file), "filename", "x.csv")
	part, err := s.files.Partial(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.files.Append(t.Context(), id, int64(len(file)), part, bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got := s.tus(http.MethodHead, at, nil); got.status != 200 || got.offset() != len(file) {
				t.Error(got)
			}
		})
	}
	all.Wait()
	s.received(id, file)
}

// TestTusFinishedByAnother: a request has stored the last part, and another one finds that all has come in, before the
// first one goes on. The file stays.
func TestTusFinishedByAnother(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	h, err := New(schema.Bounds{}, s.store, s.files, s.feed, s.auth, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	file := table(1 << 20)
	at, id := s.begun(len(file), "filename", "x.csv")
	part, err := s.files.Partial(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.files.Append(t.Context(), id, int64(len(file)), part, bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), tusAnswerKey{}, &tusAnswer{})
	first, err := (&tusStore{h: h}).open(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.tus(http.MethodHead, at, nil); got.status != 200 || got.offset() != len(file) {
		t.Fatal(got)
	}
	if n, err := first.WriteChunk(ctx, int64(len(file)), strings.NewReader("")); n != 0 || err != nil {
		t.Error(n, err)
	}
	if err := first.FinishUpload(ctx); err != nil {
		t.Error(err)
	}
	s.received(id, file)
}

// hang sends a part of a file, and leaves its connection open.
func (s *site) hang(at string, offset, length int, part []byte) net.Conn {
	s.t.Helper()
	to, err := url.Parse(at)
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", to.Host)
	if err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintf(conn, "PATCH %s HTTP/1.1\r\nHost: %s\r\nTus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\n"+
		"Upload-Offset: %d\r\nContent-Length: %d\r\n\r\n", to.Path, to.Host, offset, length)
	if _, err := conn.Write(part); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// further waits until more of a file is stored, and returns how much.
func (s *site) further(at string, than int) int {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got := s.tus(http.MethodHead, at, nil)
		if got.status != 200 {
			s.t.Fatal("it never answers that it is locked, or anything else:", got)
		}
		if got.offset() > than {
			return got.offset()
		}
		if time.Now().After(deadline) {
			s.t.Fatal(got)
		}
	}
}

// TestTusClientDies: a client sends 60 % and is gone, or hangs. It goes on at its byte at once.
func TestTusClientDies(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		s := serve(t, auth.Config{}, uploads.Limits{})
		file := table(5 << 20)
		at, id := s.begun(len(file), "filename", "x.csv")
		sent := len(file) * 6 / 10
		conn := s.hang(at, 0, len(file), file[:sent])
		offset := s.further(at, 2<<20)
		if !hangs {
			_ = conn.Close()
			offset = s.further(at, sent-1) // all that came
		}
		if offset > sent {
			t.Fatalf("%d bytes are stored of %d", offset, sent)
		}
		got := s.patch(at, offset, file[offset:])
		for got.status == 409 { // the request of before has stored one more chunk meanwhile
			offset = s.further(at, offset)
			got = s.patch(at, offset, file[offset:])
		}
		if got.status != 204 {
			t.Fatal(got)
		}
		if hangs { // and then sends the rest
			_, _ = conn.Write(file[sent:])
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || answer.StatusCode != http.StatusConflict {
				t.Error(answer, err)
			}
			_ = conn.Close()
		}
		s.received(id, file)
	}
}

// TestTusServerDies: a server is killed at 60 % of a file. Another one goes on at the byte that it says, and
// the file is what was sent.
func TestTusServerDies(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	file := table(5 << 20)
	at, id := s.begun(len(file), "filename", "x.csv")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MILLRACE_TEST_TUS="+s.dsn, "MILLRACE_TEST_NATS="+s.nats.URL())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	conn := s.hang(strings.TrimSpace(address)+strings.TrimPrefix(at, s.url), 0, len(file), file[:len(file)*6/10])
	defer conn.Close()
	s.further(at, 2<<20)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	offset := s.further(at, 2<<20)
	if offset%1024 != 0 || offset > len(file)*6/10 {
		t.Errorf("%d bytes are stored", offset)
	}
	if got := s.patch(at, offset, file[offset:]); got.status != 204 {
		t.Fatal(got)
	}
	s.received(id, file)
}

// TestTusMany: many send the same file at once. It is stored once, and each learns how far it is.
func TestTusMany(t *testing.T) {
	s := serve(t, auth.Config{}, uploads.Limits{})
	file := table(1 << 20)
	at, id := s.begun(len(file), "filename", "x.csv")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for offset := 0; offset < len(file); {
				next := min(offset+1+rand.IntN(100_000), len(file))
				got := s.patch(at, offset, file[offset:next])
				if got.status != 204 && got.status != 409 {
					t.Error(got)
					return
				}
				if offset = s.tus(http.MethodHead, at, nil).offset(); offset < 0 {
					t.Error("no offset")
					return
				}
			}
		})
	}
	all.Wait()
	s.received(id, file)
}
