package references

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// serving is the storage on a server of S3 that answers as a test says.
func serving(t *testing.T, answer http.HandlerFunc) *objects.S3 {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	s3, err := objects.NewS3(objects.S3Config{Endpoint: server.URL, AccessKey: "a", SecretKey: "secret", Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	return s3
}

// answerWith answers with a content that has so many bytes, as it says.
func answerWith(w http.ResponseWriter, length int, content string) {
	w.Header().Set("Content-Length", fmt.Sprint(length))
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("ETag", `"1"`)
	_, _ = io.WriteString(w, content)
}

// TestHostileS3: whatever a server of S3 answers, an object is taken whole or not at all, and the error says why.
func TestHostileS3(t *testing.T) {
	slowtest.Mark(t)
	var reached atomic.Int32
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		answerWith(w, 6, "secret")
	}))
	defer private.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"as it should be": {func(w http.ResponseWriter, _ *http.Request) { answerWith(w, 3, "abc") }, ""},
		"shorter":         {func(w http.ResponseWriter, _ *http.Request) { answerWith(w, 300, "abc") }, ErrAway.Error()},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			answerWith(w, 300, "abc")
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}, ErrAway.Error()},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, private.URL+"/secret", http.StatusTemporaryRedirect)
		}, ErrAway.Error()},
		"a redirect for ever": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, private.URL+"/secret", http.StatusMovedPermanently)
		}, ErrAway.Error()},
		"no length": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			_, _ = io.WriteString(w, "abc")
			_ = http.NewResponseController(w).Flush()
		}, ErrAway.Error()},
		"a part": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-2/300")
			w.Header().Set("Content-Length", "3")
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "abc")
		}, ErrAway.Error()},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(2 * objects.Stall):
			}
		}, ErrAway.Error()},
		"a refusal without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			endless(w, "<x>secret</x>")
		}, ErrAway.Error()},
		"another checksum": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amz-Checksum-Crc32c", "AAAAAA==")
			w.Header().Set("X-Amz-Checksum-Type", "FULL_OBJECT")
			answerWith(w, 3, "abc")
		}, "must name a file whose content is what its checksum says"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := opener(t, Config{S3: serving(t, c.answer), S3Buckets: []string{"shop"}})
			text, err := content(t, o, "s3://shop/in/a.csv")
			if c.want == "" {
				if text != "abc" || err != nil {
					t.Errorf("%q, %v", text, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2000 {
				t.Errorf("%q, %.600v; want %q", text, err, c.want)
			}
		})
	}
	t.Cleanup(func() {
		if n := reached.Load(); n > 0 {
			t.Errorf("%d redirects were followed", n)
		}
	})
	o := opener(t, Config{S3: serving(t, func(http.ResponseWriter, *http.Request) { t.Error("the server is asked") }), S3Buckets: []string{"shop"}})
	for _, key := range []string{"../a", "a/../../b", "%2e%2e/a", "a//b", "a%00b", "a%5Cb", "./a", "", "a/"} {
		refused(t, o, "s3://shop/"+key, "path")
	}
}

// page is a page of a listing.
func page(keys, more string) string {
	text := `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>shop</Name>` +
		`<IsTruncated>` + fmt.Sprint(more != "") + `</IsTruncated><NextContinuationToken>` + more + `</NextContinuationToken>`
	for key := range strings.SplitSeq(keys, "|") {
		if key != "" {
			text += "<Contents><Key>" + key + `</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>"1"</ETag><Size>3</Size></Contents>`
		}
	}
	return text + "</ListBucketResult>"
}

// TestHostileS3Listing: what a server of S3 lists is bounded.
func TestHostileS3Listing(t *testing.T) {
	slowtest.Mark(t)
	var n atomic.Int32
	for name, c := range map[string]struct {
		answer func(w io.Writer)
		want   string
	}{
		"names": {func(w io.Writer) { _, _ = io.WriteString(w, page("in/a.csv|in/../b.csv|in//c.csv|in/", "")) }, `["in/a.csv" "in/../b.csv" "in//c.csv"]`},
		"objects without end": {func(w io.Writer) {
			_, _ = io.WriteString(w, page(strings.Repeat("in/a|", 999)+"in/a", fmt.Sprint(n.Add(1))))
		}, errTooMany.Error()},
		"pages without objects": {func(w io.Writer) { _, _ = io.WriteString(w, page("", fmt.Sprint(n.Add(1)))) }, context.DeadlineExceeded.Error()},
		"no token":              {func(w io.Writer) { _, _ = io.WriteString(w, strings.Replace(page("", "x"), ">x<", "><", 1)) }, "oken"},
		"a key without end": {func(w io.Writer) {
			_, _ = io.WriteString(w, "<ListBucketResult><Contents><Key>")
			endless(w, "x")
		}, "bytes or"},
		"elements without end": {func(w io.Writer) {
			_, _ = io.WriteString(w, "<ListBucketResult>")
			endless(w, "<Contents></Contents>")
		}, "bytes or"},
		"a bomb": {func(w io.Writer) {
			_, _ = io.WriteString(w, `<!DOCTYPE b [<!ENTITY a "xxxxxxxxxx"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><ListBucketResult><Name>&b;</Name></ListBucketResult>`)
		}, "entity"},
	} {
		t.Run(name, func(t *testing.T) {
			s3 := serving(t, func(w http.ResponseWriter, _ *http.Request) { c.answer(w) })
			p, err := NewPlace(Config{S3: s3}, "s3://u:secret@shop/in/")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // in place of objects.MaxTime
			defer cancel()
			bounded(t, 200<<20, func() {
				all, err := p.List(ctx)
				var paths []string
				for _, e := range all {
					paths = append(paths, e.Path)
				}
				got := fmt.Sprintf("%q", paths)
				if err != nil {
					got = err.Error()
				}
				if !strings.Contains(got, c.want) || strings.Contains(got, "secret") {
					t.Errorf("%.300s; want %s", got, c.want)
				}
			})
		})
	}
}

// TestHostileNATS: an object whose description lies, or whose chunks are gone, is not taken.
func TestHostileNATS(t *testing.T) {
	slowtest.Mark(t)
	js := natstest.Start(t, stream.Config{}).JetStream()
	bucket, err := js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "in"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.PutString(t.Context(), "another", "x"); err != nil {
		t.Fatal(err)
	}
	o := opener(t, Config{NATS: objects.NewNATS(js, 1), NATSBuckets: []string{"in"}})
	for name, c := range map[string]struct {
		lie  func(about map[string]any)
		gone int // chunk, from 1; 0: none
		want string
	}{
		"as it should be":    {func(map[string]any) {}, 0, ""},
		"another digest":     {func(about map[string]any) { about["digest"] = "SHA-256=" + strings.Repeat("A", 43) + "=" }, 0, "checksum"},
		"no digest":          {func(about map[string]any) { delete(about, "digest") }, 0, "checksum"},
		"fewer bytes":        {func(about map[string]any) { about["size"] = 1 }, 0, ""},
		"more bytes":         {func(about map[string]any) { about["size"] = uint64(1) << 63 }, 0, ""},
		"more chunks":        {func(about map[string]any) { about["chunks"] = 1000 }, 0, ""},
		"no chunks":          {func(about map[string]any) { about["chunks"] = 0 }, 0, ""},
		"chunks of no other": {func(about map[string]any) { about["nuid"] = "none" }, 0, ErrAway.Error()},
		"chunks of all":      {func(about map[string]any) { about["nuid"] = ">" }, 0, "checksum"},
		"no first chunk":     {func(map[string]any) {}, 1, "checksum"},
		"no last chunk":      {func(map[string]any) {}, 2, "checksum"},
		"a link": {func(about map[string]any) {
			about["options"] = map[string]any{"link": map[string]any{"bucket": "other", "name": "x"}}
		}, 0, "missing"},
		"no JSON": {nil, 0, "checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			key := strings.ReplaceAll(name, " ", "-")
			text := strings.Repeat(name, 20_000)
			if _, err := bucket.PutString(t.Context(), key, text); err != nil {
				t.Fatal(err)
			}
			info, err := bucket.GetInfo(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			about := map[string]any{}
			data, err := json.Marshal(info)
			if err == nil {
				err = json.Unmarshal(data, &about)
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.lie != nil {
				c.lie(about)
				data, err = json.Marshal(about)
			} else {
				data = []byte("{")
			}
			meta := nats.NewMsg("$O.in.M." + base64.URLEncoding.EncodeToString([]byte(key)))
			meta.Data = data
			meta.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
			if err == nil {
				_, err = js.PublishMsg(t.Context(), meta)
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.gone > 0 {
				if err := goneChunk(t.Context(), js, "$O.in.C."+info.NUID, c.gone); err != nil {
					t.Fatal(err)
				}
			}
			got, err := content(t, o, "nats://in/"+key)
			var broken *Error
			switch {
			case c.want == "" && err == nil && got == text:
			case c.want == "" || err == nil:
				t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
			case !strings.Contains(err.Error(), c.want) && (!errors.As(err, &broken) || broken.Code != c.want):
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
}

// goneChunk deletes a chunk of an object.
func goneChunk(ctx context.Context, js jetstream.JetStream, subject string, n int) error {
	s, err := js.Stream(ctx, "OBJ_in")
	if err != nil {
		return err
	}
	m := &jetstream.RawStreamMsg{}
	for range n {
		if m, err = s.GetMsg(ctx, m.Sequence+1, jetstream.WithGetMsgSubject(subject)); err != nil {
			return err
		}
	}
	return s.DeleteMsg(ctx, m.Sequence)
}
