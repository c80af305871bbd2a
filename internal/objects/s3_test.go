package objects

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/millrace-io/millrace/internal/storagetest"
	"github.com/millrace-io/millrace/schemas/object"
)

// TestS3 reads from a real server of S3, and through a proxy that lies about what it sends.
func TestS3(t *testing.T) {
	endpoint := storagetest.S3(t)
	ctx := t.Context()
	writer := storagetest.Client(t, endpoint, "crawls", "crawl.results")
	large := noise(20 << 20)
	for key, content := range map[string][]byte{
		"tiktok/a b+c.json": []byte("[1]"), "ключ": []byte("[2]"), "nothing": nil, "large": large,
		"zip": gzipped(t, []byte("[3]")),
	} {
		for _, bucket := range []string{"crawls", "crawl.results"} {
			put(t, writer, bucket, key, content)
		}
	}
	open := func(endpoint, secret string) *S3 {
		s, err := NewS3(S3Config{Endpoint: endpoint, AccessKey: storagetest.User, SecretKey: secret})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	storage := open(endpoint, storagetest.Password)
	for key, want := range map[string]string{
		"tiktok/a b+c.json": "[1]", "ключ": "[2]", "nothing": "", "large": string(large), "zip": "[3]",
	} {
		for _, bucket := range []string{"crawls", "crawl.results"} {
			got, _, err := Read(ctx, storage, object.Name{Bucket: bucket, Key: key})
			if err != nil || string(got) != want {
				t.Errorf("%s/%s: %d bytes, %v", bucket, key, len(got), err)
			}
		}
	}
	for _, o := range []object.Name{
		crawled("none"), {Bucket: "none", Key: "a"}, {Bucket: "Not_A_Bucket", Key: "a"}, crawled("../crawl.results/zip"),
	} {
		if got, _, err := Read(ctx, storage, o); !errors.Is(err, ErrMissing) || got != nil {
			t.Errorf("%s: %q, %v", o, got, err)
		}
	}
	got, _, err := Read(ctx, open(endpoint, "wrong"), crawled("zip"))
	if got != nil || err == nil || errors.Is(err, ErrMissing) {
		t.Errorf("with a wrong secret: %q, %v", got, err)
	}
	for name, change := range map[string]func([]byte, http.Header) []byte{
		"other": func(body []byte, _ http.Header) []byte { return bytes.Replace(body, []byte("1"), []byte("7"), 1) },
		"cut":   func(body []byte, _ http.Header) []byte { return body[:len(body)-1] },
		"cut, without a length": func(body []byte, h http.Header) []byte {
			for name := range h {
				if name == "Content-Length" || strings.HasPrefix(name, "X-Amz-Checksum") {
					h.Del(name)
				}
			}
			return body[:len(body)-1]
		},
	} {
		got, _, err := Read(ctx, open(lying(t, endpoint, change), storagetest.Password), crawled("tiktok/a b+c.json"))
		if got != nil || err == nil || (name == "other") != errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// put stores an object, and its checksum beside it.
func put(t *testing.T, writer *minio.Client, bucket, key string, content []byte) {
	t.Helper()
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
	header := http.Header{"X-Amz-Checksum-Crc32c": {base64.StdEncoding.EncodeToString(sum)}}
	to, err := writer.PresignHeader(t.Context(), http.MethodPut, bucket, key, time.Minute, nil, header)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, to.String(), bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		t.Fatalf("put %s/%s: %s %s", bucket, key, answer.Status, text)
	}
}

// lying is a server of S3 that changes the content of objects, or what it says about them.
func lying(t *testing.T, endpoint string, change func([]byte, http.Header) []byte) string {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
	}
	proxy.ModifyResponse = func(answer *http.Response) error {
		body, err := io.ReadAll(answer.Body)
		if strings.Contains(answer.Request.URL.Path, "tiktok") { // not where the bucket is
			body = change(body, answer.Header)
		}
		if answer.Header.Get("Content-Length") == "" {
			answer.ContentLength = -1
		}
		answer.Body = io.NopCloser(bytes.NewReader(body))
		return err
	}
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}
