package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const script = "assets/index-1a2b3c.js"

// sample is a build as Vite leaves it, so that the test does not depend on whether the page has been built.
func sample(t *testing.T) http.Handler {
	t.Helper()
	pages, err := load(fstest.MapFS{
		".hidden":           {},
		"index.html":        {Data: []byte("<title>Millrace</title>")},
		"docs.html":         {Data: []byte("<title>API</title>")},
		"sw.js":             {Data: []byte("let worker")},
		script:              {Data: []byte("let plain")},
		script + ".gz":      {Data: zip(t, "let plain")},
		"assets/font.woff2": {Data: []byte("wOF2")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return secured(pages)
}

func zip(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func get(h http.Handler, target string, headers ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestHandlerServesTheBuild(t *testing.T) {
	for _, tc := range []struct {
		path, contentType, cache, body string
	}{
		{"/", "text/html; charset=utf-8", revalidate, "<title>Millrace</title>"},
		{"/index.html", "text/html; charset=utf-8", revalidate, "<title>Millrace</title>"},
		{"/docs", "text/html; charset=utf-8", revalidate, "<title>API</title>"},
		{"/docs.html", "text/html; charset=utf-8", revalidate, "<title>API</title>"},
		// A worker that were kept would keep its page for ever.
		{"/sw.js", "text/javascript; charset=utf-8", revalidate, "let worker"},
		{"/" + script, "text/javascript; charset=utf-8", cacheForever, "let plain"},
		{"/assets/font.woff2", "font/woff2", cacheForever, "wOF2"},
	} {
		t.Run(tc.path, func(t *testing.T) {
			res := get(sample(t), tc.path)
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != http.StatusOK || string(body) != tc.body {
				t.Errorf("got %d %q, want 200 %q", res.StatusCode, body, tc.body)
			}
			for name, want := range map[string]string{
				"Content-Type":            tc.contentType,
				"Cache-Control":           tc.cache,
				"Content-Security-Policy": contentSecurityPolicy,
				"X-Content-Type-Options":  "nosniff",
			} {
				if got := res.Header.Get(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestHandlerServesGzipToThoseWhoAcceptIt(t *testing.T) {
	for accept, zipped := range map[string]bool{
		"gzip, deflate, br": true,
		"br, gzip;q=0.5":    true,
		"gzip;q=0":          false,
		"identity":          false,
		"":                  false,
	} {
		res := get(sample(t), "/"+script, "Accept-Encoding", accept)
		if got := res.Header.Get("Content-Encoding") == "gzip"; got != zipped {
			t.Errorf("Accept-Encoding %q: zipped %v, want %v", accept, got, zipped)
		}
		if got := res.Header.Get("Vary"); got != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: Vary %q", accept, got)
		}
	}
}

func TestHandlerAnswersUnchanged(t *testing.T) {
	h := sample(t)
	etag := get(h, "/").Header.Get("ETag")
	if res := get(h, "/", "If-None-Match", etag); res.StatusCode != http.StatusNotModified {
		t.Errorf("got %d for a known ETag %s, want 304", res.StatusCode, etag)
	}
}

func TestHandlerRefuses(t *testing.T) {
	for _, path := range []string{"/nothing", "/.hidden", "/" + script + ".gz", "/assets/", "/../embed.go"} {
		if res := get(sample(t), path); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, res.StatusCode)
		}
	}
	w := httptest.NewRecorder()
	sample(t).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d, want 405", w.Code)
	}
}

func TestHandlerBelowAPrefix(t *testing.T) {
	const prefix = "/api/pipeline"
	h := http.StripPrefix(prefix, sample(t))
	if res := get(h, prefix+"/docs"); res.StatusCode != http.StatusOK {
		t.Errorf("docs: got %d, want 200", res.StatusCode)
	}
	for target, want := range map[string]string{
		prefix:            "pipeline/",
		prefix + "?a=b":   "pipeline/",
		prefix + "/docs/": "../docs",
	} {
		res := get(h, target)
		if got := res.Header.Get("Location"); res.StatusCode != http.StatusMovedPermanently || got != want {
			t.Errorf("%s: got %d to %q, want 301 to %q", target, res.StatusCode, got, want)
		}
	}
}

// TestBuiltPage: the page that is in the repository is served, and was built from the sources beside it. What it was
// built from is summed up as by the target page of the Makefile.
func TestBuiltPage(t *testing.T) {
	res := get(Handler(), "/")
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), `src="./assets/index-`) {
		t.Errorf("%d %s, %v", res.StatusCode, body, err)
	}
	var sources []string
	for _, pattern := range []string{"*.json", "*.html", "*.ts"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, found...)
	}
	for _, folder := range []string{"src", "public", "build"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				sources = append(sources, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(sources)
	all := sha256.New()
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(all, "%x  query/dashboard/%s\n", sha256.Sum256(text), name)
	}
	noted, err := os.ReadFile("dist.sha256")
	if want := fmt.Sprintf("%x  -\n", all.Sum(nil)); err != nil || string(noted) != want {
		t.Errorf("the page was built from other sources: run make page, and commit dist and dist.sha256 (%v)", err)
	}
}
