// Package dashboard holds the web page, built into the binary.
//
// The page is the Vite application of this folder. Its build is in dist, which is in the repository, so that every
// way of building the program gives it the page; make page builds it anew when its sources have changed.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

// The page loads nothing from other hosts, and no script but its own files. Styles may be inline: the charting
// library places its tooltips with them.
const contentSecurityPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"

// Names below assets/ carry a hash of their content.
const (
	cacheForever = "public, max-age=31536000, immutable"
	revalidate   = "no-cache"
)

// The all: prefix takes in the chunks whose names begin with an underscore.
//
//go:embed all:dist
var built embed.FS

// Handler serves the page at "/", the API reference at "/docs" and the files that they load. It works below any path
// prefix that http.StripPrefix or a proxy takes away: the page knows only relative addresses.
func Handler() http.Handler {
	files, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the name is valid
	}
	pages, err := load(files)
	if err != nil {
		panic(err) // what is embedded can be read
	}
	return secured(pages)
}

// file is one file of the build, with the form that goes over the wire to a client that accepts gzip.
type file struct {
	contentType  string
	cacheControl string
	etag         string
	plain        []byte
	gzipped      []byte // nil where the build found it not worth while
}

// site maps a path as requested, without its leading slash, to its file.
type site map[string]*file

func load(files fs.FS) (site, error) {
	pages := site{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) == ".gz" || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		pages[name], err = read(files, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load the built page: %w", err)
	}
	pages[""] = pages["index.html"]
	if docs, ok := pages["docs.html"]; ok {
		pages["docs"] = docs
	}
	return pages, nil
}

func read(files fs.FS, name string) (*file, error) {
	plain, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	gzipped, err := fs.ReadFile(files, name+".gz")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	sum := sha256.Sum256(plain)
	f := &file{
		contentType:  contentType(name),
		cacheControl: revalidate,
		etag:         hex.EncodeToString(sum[:8]),
		plain:        plain,
		gzipped:      gzipped,
	}
	if strings.HasPrefix(name, "assets/") {
		f.cacheControl = cacheForever
	}
	return f, nil
}

// contentType does not ask the operating system: its table is missing in small images, and wrong on some desktops.
func contentType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".woff2":
		return "font/woff2"
	default:
		if known := mime.TypeByExtension(ext); known != "" {
			return known
		}
		return "application/octet-stream"
	}
}

func (s site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page is read with GET", http.StatusMethodNotAllowed)
		return
	}
	if location, ok := canonical(r); ok {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	f, ok := s[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	f.serve(w, r)
}

// canonical returns where a request belongs whose relative addresses would point to the wrong folder: a prefix
// without its slash, and the API reference with one. The answer is relative too, for the prefix is not known here.
func canonical(r *http.Request) (string, bool) {
	switch r.URL.Path {
	case "":
		requested, _, _ := strings.Cut(r.RequestURI, "?")
		return path.Base(requested) + "/", true
	case "/docs/":
		return "../docs", true
	default:
		return "", false
	}
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.contentType)
	header.Set("Cache-Control", f.cacheControl)
	body, etag := f.plain, f.etag
	if f.gzipped != nil {
		header.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			header.Set("Content-Encoding", "gzip")
			body, etag = f.gzipped, f.etag+"-gzip"
		}
	}
	header.Set("ETag", `"`+etag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if name == "gzip" {
			return strings.ReplaceAll(weight, " ", "") != "q=0"
		}
	}
	return false
}

func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentSecurityPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}
