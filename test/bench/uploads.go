package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/auth"
)

const (
	uploadQueue   = "bench-rows"  // the processor of uploads
	plainQueue    = "bench-plain" // has items by itself
	uploadSecret  = "a secret of the bench alone, thirty-two"
	uploadSection = "uploads"
)

// uploading is the measuring of uploads.
type uploading struct {
	*bench
	m          *millrace
	pool       *pgxpool.Pool
	n          int // rows
	file       string
	user, peer *http.Client // of two users
}

// uploads measures what becomes of many rows that are uploaded.
func (b *bench) uploads(ctx context.Context) (err error) {
	// What bounds users is no part of this.
	m, err := b.empty(ctx, "AUTH_JWT_SECRET="+uploadSecret, "MILLRACE_UPLOADS_MAX_FILE=8000000000",
		"MILLRACE_UPLOADS_USER_BYTES=80000000000", "MILLRACE_UPLOADS_USER_ROWS=200000000")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close(), os.RemoveAll(m.data)) }()
	u := &uploading{bench: b, m: m, n: max(b.cfg.rows, 100), file: filepath.Join(m.data, "rows.csv")}
	if u.pool, err = m.postgresPool(ctx); err != nil {
		return err
	}
	defer u.pool.Close()
	if u.user, err = userNamed("many"); err != nil {
		return err
	}
	if u.peer, err = userNamed("few"); err != nil {
		return err
	}
	if err := writeRows(u.file, u.n); err != nil {
		return err
	}
	for _, queue := range []string{uploadQueue, plainQueue} {
		if err := u.post(ctx, u.user, "/queues", map[string]any{"name": queue}, nil); err != nil {
			return err
		}
	}
	copied, err := u.persisting(ctx)
	if err != nil {
		return err
	}
	if err := u.queueing(ctx, copied); err != nil {
		return err
	}
	return u.exporting(ctx, copied)
}

// add says what is measured at once: the section takes long where there are many rows.
func (u *uploading) add(all ...line) {
	for _, l := range all {
		u.say("%s: %s %s; %s: %s", l.Name, number(l.Value), l.Unit, l.Peer, number(l.Against))
	}
	u.bench.add(all...)
}

// userNamed is a client with a token of a user who may do what users and workers do.
func userNamed(name string) (*http.Client, error) {
	token, err := auth.Mint(uploadSecret, name, []auth.Scope{auth.Read, auth.Work}, 24*time.Hour)
	return &http.Client{Transport: bearer(token)}, err
}

// bearer sends a token with each request.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (u *uploading) get(ctx context.Context, c *http.Client, path string, query url.Values, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+u.m.http+"/api/v1"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	return decode(answer, http.StatusOK, into)
}

func (u *uploading) post(ctx context.Context, c *http.Client, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+u.m.http+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if answer.StatusCode == http.StatusCreated {
		status = http.StatusCreated
	}
	return decode(answer, status, into)
}

// sent is an upload with the moments at which its last byte was sent and the answer came.
type sent struct {
	id             string
	begin          time.Time
	last, answered time.Time
}

// send uploads a file.
func (u *uploading) send(ctx context.Context, c *http.Client, processor string, from io.Reader) (s sent, err error) {
	s.begin = time.Now()
	body, pipe := io.Pipe()
	form := multipart.NewWriter(pipe)
	go func() {
		err := form.WriteField("processor", processor)
		if err == nil {
			var file io.Writer
			if file, err = form.CreateFormFile("file", "rows.csv"); err == nil {
				_, err = io.Copy(file, from)
			}
		}
		if err == nil {
			err = form.Close()
		}
		s.last = time.Now()
		_ = pipe.CloseWithError(err) // it returns no error
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+u.m.http+"/api/v1/uploads", body)
	if err != nil {
		return s, err
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	answer, err := c.Do(r)
	if err != nil {
		return s, err
	}
	var out struct{ JobID string }
	err = decode(answer, http.StatusCreated, &out)
	s.id, s.answered = out.JobID, time.Now()
	return s, err
}

// uploadNow is what is shown of an upload.
type uploadNow struct {
	QueueState string  `json:"queue_state"`
	Persisted  bool    `json:"persisted"`
	Total      int     `json:"total_items"`
	Processed  int     `json:"processed_items"`
	Failed     int     `json:"failed_items"`
	Rejected   int     `json:"rejected_rows"`
	LastError  *string `json:"last_error"`
}

func persisted(n uploadNow) bool { return n.Persisted }

func done(n uploadNow) bool { return n.QueueState == "DONE" }

// await waits until something holds of an upload. It looks every so often.
func (u *uploading) await(
	ctx context.Context, c *http.Client, id string, every time.Duration, holds func(uploadNow) bool,
) (time.Time, error) {
	for {
		var now uploadNow
		if err := u.get(ctx, c, "/uploads/"+id, nil, &now); err != nil {
			return time.Time{}, err
		}
		switch {
		case now.QueueState == "FAILED" || now.QueueState == "PAUSED" || now.Failed > 0 || now.Rejected > 0:
			return time.Time{}, fmt.Errorf("the upload %s is %+v", id, now)
		case holds(now):
			return time.Now(), nil
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// persisting measures how fast rows are persisted, and copied, and returns the upload.
func (u *uploading) persisting(ctx context.Context) (s sent, err error) {
	u.say("COPY of %d rows into a plain table", u.n)
	before, err := u.plainCopy(ctx, "bench_again")
	if err != nil {
		return s, err
	}
	u.say("uploading %d rows", u.n)
	file, err := os.Open(u.file)
	if err != nil {
		return s, err
	}
	defer file.Close()
	if s, err = u.send(ctx, u.user, "copy", file); err != nil {
		return s, err
	}
	watch := newStopwatch()
	first, err := u.firstRow(ctx, s.id)
	if err != nil {
		return s, err
	}
	stored, err := u.await(ctx, u.user, s.id, 20*time.Millisecond, persisted)
	if err != nil {
		return s, err
	}
	persisting := watch.stop(u.n)
	copied, err := u.await(ctx, u.user, s.id, 20*time.Millisecond, done)
	if err != nil {
		return s, err
	}
	u.say("COPY again")
	after, err := u.plainCopy(ctx, plainTable)
	if err != nil {
		return s, err
	}
	rate := func(d time.Duration) float64 { return float64(u.n) / d.Seconds() }
	floor, by := rate((before.took+after.took)/2), "COPY of the file into a plain table"
	u.add(
		line{uploadSection, "rows persisted, once the file is there", "rows/s", more, rate(stored.Sub(s.answered)), by, floor},
		line{uploadSection, "rows persisted and copied, once the file is there", "rows/s", more, rate(copied.Sub(s.answered)), by, floor},
		line{uploadSection, "rows persisted, from the first byte sent", "rows/s", more, rate(stored.Sub(s.begin)), by, floor},
		line{uploadSection, "processor time of a row persisted", "µs/row", less, persisting.cpu, by, (before.cpu + after.cpu) / 2},
		line{uploadSection, "first row in the grid, from the last byte sent", "ms", less, ms(first.Sub(s.last)), "the promise", 1000},
	)
	return s, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// firstRow waits until the grid of an upload has a row.
func (u *uploading) firstRow(ctx context.Context, id string) (time.Time, error) {
	for {
		var page struct{ Items []struct{} }
		err := u.get(ctx, u.user, "/uploads/"+id+"/items", url.Values{"pageSize": {"1"}}, &page)
		if err != nil || len(page.Items) > 0 {
			return time.Now(), err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
