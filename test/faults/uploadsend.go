package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// upload sends the nth file until that is answered. Where an answer is lost there may be several of it.
func (l *uploadLoad) upload(ctx context.Context, n int) {
	p := planOf(n, l.large)
	for try := 0; ctx.Err() == nil; try++ {
		id, err := l.sendOnce(ctx, p, try)
		if err == nil {
			l.mu.Lock()
			l.acked[id] = n
			l.mu.Unlock()
			return
		}
		wait(ctx, 500*time.Millisecond)
	}
}

func (l *uploadLoad) sendOnce(ctx context.Context, p uploadPlan, try int) (id string, err error) {
	if !p.tus {
		return l.form(ctx, l.ingest[(p.n+try)%len(l.ingest)], p)
	}
	if id, err = l.begin(ctx, l.ingest[(p.n+try)%len(l.ingest)], p); err == nil {
		err = l.sendParts(ctx, p, id)
	}
	return id, err
}

// form sends a file as a form.
func (l *uploadLoad) form(ctx context.Context, addr string, p uploadPlan) (string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range map[string]string{"processor": p.processor, "name": strconv.Itoa(p.n)} {
		if err := form.WriteField(name, value); err != nil {
			return "", err
		}
	}
	file, err := form.CreateFormFile("file", fmt.Sprintf("%d.csv", p.n))
	if err == nil {
		_, err = io.WriteString(file, p.text())
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/api/v1/uploads", &body)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := l.files.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out struct{ JobID string }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("status %d, %w", resp.StatusCode, err)
	}
	return out.JobID, nil
}

// tus sends a request of that protocol, and returns the headers of an answer with a status.
func (l *uploadLoad) tus(ctx context.Context, method, addr, at string, body io.Reader, status int, headers ...string) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+"/api/v1/uploads/tus"+at, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := l.files.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != status {
		return nil, fmt.Errorf("%s %s: status %d: %.300s", method, at, resp.StatusCode, text)
	}
	return resp.Header, nil
}

// begin begins a resumable upload.
func (l *uploadLoad) begin(ctx context.Context, addr string, p uploadPlan) (string, error) {
	sum := p.sha256()
	var metadata []string
	for _, pair := range [][2]string{
		{"filename", fmt.Sprintf("%d.csv", p.n)},
		{"processor", p.processor},
		{"name", strconv.Itoa(p.n)},
		{"sha256", fmt.Sprintf("%x", sum)},
	} {
		metadata = append(metadata, pair[0]+" "+base64.StdEncoding.EncodeToString([]byte(pair[1])))
	}
	header, err := l.tus(ctx, http.MethodPost, addr, "", nil, http.StatusCreated,
		"Upload-Length", strconv.Itoa(len(p.text())), "Upload-Metadata", strings.Join(metadata, ","))
	if err != nil {
		return "", err
	}
	return path.Base(header.Get("Location")), nil
}

// errCut ends the body of a request in its middle.
var errCut = errors.New("the connection is cut")

// sendParts sends a file from where it is, to any process, until all of it has come in. Some connections break.
func (l *uploadLoad) sendParts(ctx context.Context, p uploadPlan, id string) error {
	text := p.text()
	random := rand.New(rand.NewPCG(l.seed, 4000+uint64(p.n)))
	for try := 0; ctx.Err() == nil; try++ {
		addr := l.ingest[(p.n+try)%len(l.ingest)]
		header, err := l.tus(ctx, http.MethodHead, addr, "/"+id, nil, http.StatusOK)
		if err != nil {
			wait(ctx, 500*time.Millisecond)
			continue
		}
		at, err := strconv.Atoi(header.Get("Upload-Offset"))
		if err != nil || at > len(text) {
			l.notes.fail("the upload %s by tus has the offset %q of %d", id, header.Get("Upload-Offset"), len(text))
			return nil
		}
		if at == len(text) {
			return nil
		}
		part := text[at:min(at+1+random.IntN(len(text)), len(text))]
		var body io.Reader = strings.NewReader(part)
		if random.IntN(3) == 0 && !l.honest.Load() {
			body = io.MultiReader(strings.NewReader(part[:random.IntN(len(part))]), cutReader{})
		}
		_, _ = l.tus(ctx, http.MethodPatch, addr, "/"+id, body, http.StatusNoContent, // the offset says what came of it
			"Upload-Offset", strconv.Itoa(at), "Content-Type", "application/offset+octet-stream")
	}
	return ctx.Err()
}

// cutReader breaks the request whose body it is.
type cutReader struct{}

// Read implements io.Reader.
func (cutReader) Read([]byte) (int, error) { return 0, errCut }
