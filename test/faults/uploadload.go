package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// uploadQueue is the processor of uploads.
const uploadQueue = "enrich"

// Of the uploads.
const (
	uploadEvery   = 4 * time.Second
	uploadRows    = 48
	uploadWorkers = 3
)

// uploadLoad is the fifth workload: files are uploaded, and workers of a queue make results of their rows: some fail at
// first, find nothing, refuse a row, or vanish with it. Meanwhile counters are held to rows.
type uploadLoad struct {
	*crew
	dsn recordOf

	mu    sync.Mutex
	sent  int
	acked map[string]int // numbers of uploads, by the ids that were answered
	most  map[string]int // items that were processed at the last look, by the id
	looks int
}

func newUploadLoad(seed uint64, c *cluster) *uploadLoad {
	l := &uploadLoad{
		crew: newCrew(seed, c, newWorkNotes(c.postgres.clock), uploadQueue),
		dsn:  recordOf(c.postgresURL(c.postgresAddr)), acked: map[string]int{}, most: map[string]int{},
	}
	l.own = true
	return l
}

// rowFate is what workers make of a row.
type rowFate int

const (
	rowDone  rowFate = iota
	rowFails         // at the first attempt
	rowMissing
	rowSkipped
	rowInvalid
)

// fateOf is that of a row of an upload.
func fateOf(upload, row int) rowFate {
	switch (3*upload + row) % 12 {
	case 1, 2:
		return rowFails
	case 3:
		return rowSkipped
	case 4:
		return rowInvalid
	case 5:
		return rowMissing
	}
	return rowDone
}

// status is the one that the row has in the end, where it is not DONE.
func (f rowFate) status() string {
	return map[rowFate]string{rowMissing: "NOT_FOUND", rowSkipped: "SKIPPED", rowInvalid: "ERROR"}[f]
}

// run uploads files until sending ends, and works until working ends.
func (l *uploadLoad) run(sending, working context.Context) error {
	l.demand(working, http.MethodPost, "/queues", map[string]any{
		"name": uploadQueue, "max_attempts": 0, "lease_s": workLease.Seconds(),
	}, nil)
	g, working := errgroup.WithContext(working)
	g.Go(func() error { l.look(working); return nil })
	for i := range uploadWorkers {
		g.Go(func() error { l.process(working, i); return nil })
	}
	var all sync.WaitGroup
	every := time.NewTicker(uploadEvery)
	defer every.Stop()
	for n := 0; sending.Err() == nil && working.Err() == nil; n++ {
		l.mu.Lock()
		l.sent = n + 1
		l.mu.Unlock()
		all.Go(func() { l.upload(working, n) })
		select {
		case <-every.C:
		case <-sending.Done():
		}
	}
	all.Wait()
	return g.Wait()
}

// uploadText is the nth file.
func uploadText(n int) string {
	var text strings.Builder
	text.WriteString("upload,row,title\n")
	for row := 1; row <= uploadRows; row++ {
		fmt.Fprintf(&text, "%d,%d,\"Chair,\n“%d”\"\n", n, row, row)
	}
	return text.String()
}

// upload sends the nth file until that is answered. Where an answer is lost there may be several of it.
func (l *uploadLoad) upload(ctx context.Context, n int) {
	for try := 0; ctx.Err() == nil; try++ {
		id, err := l.post(ctx, l.ingest[(n+try)%len(l.ingest)], n)
		if err == nil {
			l.mu.Lock()
			l.acked[id] = n
			l.mu.Unlock()
			return
		}
		wait(ctx, 500*time.Millisecond)
	}
}

func (l *uploadLoad) post(ctx context.Context, addr string, n int) (string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range map[string]string{"processor": uploadQueue, "name": fmt.Sprint(n)} {
		if err := form.WriteField(name, value); err != nil {
			return "", err
		}
	}
	file, err := form.CreateFormFile("file", fmt.Sprintf("%d.csv", n))
	if err == nil {
		_, err = io.WriteString(file, uploadText(n))
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/api/v1/uploads", &body)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := l.web.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out struct{ JobID string }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("status %d, %v", resp.StatusCode, err)
	}
	return out.JobID, nil
}

// uploadRow is the payload of an item.
type uploadRow struct {
	Input struct{ Upload, Row, Title string }
}

// process works rows. Now and then it vanishes with what it has.
func (l *uploadLoad) process(ctx context.Context, i int) {
	random := rand.New(rand.NewPCG(l.seed, 70+uint64(i)))
	for ctx.Err() == nil {
		worker := fmt.Sprintf("enricher-%d-%d", i, l.serial.Add(1))
		items := l.take(ctx, uploadQueue, worker, 1+random.IntN(10))
		for _, it := range items {
			if random.IntN(30) == 0 && !l.honest.Load() {
				continue
			}
			l.reportRow(ctx, worker, it)
		}
		if len(items) == 0 {
			wait(ctx, 200*time.Millisecond)
		}
	}
}

func (l *uploadLoad) reportRow(ctx context.Context, worker string, it takenItem) {
	var payload uploadRow
	var n, row int
	err := json.Unmarshal(it.Payload, &payload)
	if err == nil {
		_, err = fmt.Sscan(payload.Input.Upload+" "+payload.Input.Row, &n, &row)
	}
	if err != nil || payload.Input.Title != fmt.Sprintf("Chair,\n“%d”", row) {
		l.notes.fail("%s has an item whose payload is %.200s: %v", uploadQueue, it.Payload, err)
		return
	}
	what, body := "done", map[string]any{"worker": worker, "generation": it.Generation}
	switch fate := fateOf(n, row); {
	case fate == rowMissing:
		body["not_found"] = true
	case fate == rowSkipped:
		body["skipped"] = true
	case fate == rowInvalid:
		what, body["error"], body["class"] = "fail", "no product", "invalid"
	case fate == rowFails && it.Attempt == 1:
		what, body["error"], body["class"], body["delay_s"] = "fail", "broken", "network", 0
	default:
		body["result"] = map[string]int{"upload": n, "row": row}
	}
	l.insist(ctx, fmt.Sprintf("/queues/%s/items/%d/%s", uploadQueue, it.ID, what), body, nil)
}

// unsoundUploads has what contradicts the promise in one snapshot: counters that are not those of rows, and rows whose
// items have ended or are gone.
const unsoundUploads = `SELECT 'counters of ' || u.id || ': ' || (u.pending, u.processing, u.done, u.error, u.not_found, u.skipped)::text || ', and rows: ' || c::text
	FROM millrace.upload AS u, LATERAL (SELECT (count(*) FILTER (WHERE status = 0))::integer AS a, (count(*) FILTER (WHERE status = 1))::integer AS b,
		(count(*) FILTER (WHERE status = 2))::integer AS c, (count(*) FILTER (WHERE status = 3))::integer AS d,
		(count(*) FILTER (WHERE status = 4))::integer AS e, (count(*) FILTER (WHERE status = 5))::integer AS f
		FROM millrace.upload_item WHERE job_no = u.no) AS c
	WHERE (u.pending, u.processing, u.done, u.error, u.not_found, u.skipped) <> (c.a, c.b, c.c, c.d, c.e, c.f)
	UNION ALL SELECT 'row ' || i.row_no || ' of job ' || i.job_no || ' is PROCESSING, and its item ' || coalesce(t.status::text, 'gone')
	FROM millrace.upload_item AS i LEFT JOIN millrace.item AS t ON t.id = i.item_id
	WHERE i.status = 1 AND (t.id IS NULL OR t.status NOT IN ('new', 'started'))`

// look holds counters to rows, and what is shown of uploads to their sums, all the time.
func (l *uploadLoad) look(ctx context.Context) {
	for ; ctx.Err() == nil; wait(ctx, lookEvery) {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		var fault string
		err := l.dsn.read(asking, unsoundUploads, []any{&fault}, func() error {
			l.notes.fail("at a look, %s", fault)
			return nil
		})
		cancel()
		if err == nil {
			l.mu.Lock()
			l.looks++
			l.mu.Unlock()
		}
		l.shown(ctx)
	}
}

// shown looks at the list of uploads.
func (l *uploadLoad) shown(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	body, err := fetchOnce(asking, http.MethodGet, "http://"+l.query+"/api/v1/uploads?limit=1000", "")
	var page struct {
		Items []struct {
			JobID     string `json:"jobId"`
			Total     int    `json:"total_items"`
			Processed int    `json:"processed_items"`
			Rejected  int    `json:"rejected_rows"`
			Statuses  map[string]int
		}
	}
	if err != nil || json.Unmarshal(body, &page) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range page.Items {
		sum := 0
		for _, n := range u.Statuses {
			sum += n
		}
		if sum != u.Total || u.Processed != sum-u.Statuses["PENDING"]-u.Statuses["PROCESSING"] || u.Rejected != 0 {
			l.notes.fail("at a look, the counters of %+v do not add up", u)
		}
		if u.Processed < l.most[u.JobID] {
			l.notes.fail("at a look, %s has %d processed items, and had %d: a row had two final statuses", u.JobID, u.Processed,
				l.most[u.JobID])
		}
		l.most[u.JobID] = u.Processed
	}
}
