package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Of the uploads.
const (
	uploadEvery   = 4 * time.Second
	uploadWorkers = 3
	// largeWorkers are those of a large upload over HTTP, each of which reports so many items at a time. As many have the Go
	// client.
	largeWorkers = 2
	largeReports = 8
	largeLook    = 2 * time.Second
)

// uploadLoad is the fifth workload: files are uploaded by forms and by tus, or come into a watched folder. Workers of a
// queue, and a webhook, make results of their rows: some fail at first, find nothing, refuse a row, or vanish with it.
// Exports are made of one of them. Meanwhile counters are held to rows.
type uploadLoad struct {
	*crew
	dsn   recordOf
	large int // rows of the large upload; 0: there is none
	files *http.Client
	hook  *hookReceiver
	place *watchedPlace

	mu      sync.Mutex
	sent    int
	coming  bool           // files, or exports are made yet
	acked   map[string]int // numbers of uploads, by the ids that were answered
	most    map[string]int // items that were processed at the last look, by the id
	open    int            // uploads that were not done at the last look
	looks   int
	exports int // compared
}

func newUploadLoad(seed uint64, c *cluster, large int) *uploadLoad {
	l := &uploadLoad{
		crew: newCrew(seed, c, newWorkNotes(c.postgres.clock), uploadQueue), large: large,
		dsn: recordOf(c.postgresURL(c.postgresAddr)), acked: map[string]int{}, most: map[string]int{}, coming: true,
		files: &http.Client{Timeout: time.Minute}, place: &watchedPlace{dir: c.watched},
	}
	l.own = true
	l.hook = newHookReceiver(seed, c.hookAddr, l)
	l.web.Transport = &http.Transport{MaxIdleConnsPerHost: largeWorkers * largeReports}
	return l
}

// run uploads files until sending ends, and works until working ends.
func (l *uploadLoad) run(sending, working context.Context) error {
	for _, queue := range []string{uploadQueue, hookedQueue} {
		l.demand(working, http.MethodPost, "/queues", map[string]any{
			"name": queue, "max_attempts": 0, "lease_s": workLease.Seconds(),
		}, nil)
	}
	l.demand(working, http.MethodPut, "/queues/"+hookedQueue+"/webhook", l.hook.settings(), nil)
	g, working := errgroup.WithContext(working)
	g.Go(func() error { l.look(working); return nil })
	g.Go(func() error { return l.hook.run(working) })
	count := uploadWorkers
	if l.large > 0 {
		count = largeWorkers
	}
	for i := range count {
		g.Go(func() error { l.process(working, i); return nil })
		if l.large > 0 {
			g.Go(func() error { l.clients(working, i); return nil })
		}
	}
	l.sendAll(sending, working)
	return g.Wait()
}

// sendAll has files come in until sending ends, and returns when all of them have.
func (l *uploadLoad) sendAll(sending, working context.Context) {
	var all sync.WaitGroup
	begin := func(n int) {
		l.mu.Lock()
		l.sent++
		l.mu.Unlock()
		all.Go(func() { l.upload(working, n) })
	}
	l.mu.Lock()
	l.sent++ // what is exported
	l.mu.Unlock()
	all.Go(func() { l.export(sending, working) })
	all.Go(func() {
		if err := l.place.run(sending, l.seed); err != nil {
			l.notes.fail("the watched place: %v", err)
		}
	})
	if l.large > 0 {
		begin(largeUpload)
	}
	every := time.NewTicker(uploadEvery)
	defer every.Stop()
	for n := 0; sending.Err() == nil && working.Err() == nil; {
		if l.room() {
			begin(n)
			n++
		}
		select {
		case <-every.C:
		case <-sending.Done():
		}
	}
	all.Wait()
	l.mu.Lock()
	l.coming = false
	l.mu.Unlock()
}

// uploadRow is the payload of an item.
type uploadRow struct {
	Input struct{ Upload, Row, Title string }
}

// mostOpen is how many uploads may be under way for another one to begin: a busy machine has fewer.
const mostOpen = 12

// room tells whether another upload may begin.
func (l *uploadLoad) room() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open+l.sent-len(l.acked) < mostOpen
}

// rowOf is the row that a payload has, and the plan of its upload.
func (l *uploadLoad) rowOf(queue string, payload json.RawMessage) (p uploadPlan, row int, ok bool) {
	var of uploadRow
	var n int
	err := json.Unmarshal(payload, &of)
	if err == nil {
		_, err = fmt.Sscan(of.Input.Upload+" "+of.Input.Row, &n, &row)
	}
	p = planOf(n, l.large)
	if err != nil || of.Input.Title != uploadCell(row) || p.processor != queue {
		l.notes.fail("%s has an item whose payload is %.200s: %v", queue, payload, err)
		return p, row, false
	}
	return p, row, true
}

// process works rows. Now and then it vanishes with what it has, or takes its time.
func (l *uploadLoad) process(ctx context.Context, i int) {
	random := rand.New(rand.NewPCG(l.seed, 70+uint64(i)))
	most, atOnce := 10, 1
	if l.large > 0 {
		most, atOnce = 60, largeReports
	}
	for ctx.Err() == nil {
		worker := fmt.Sprintf("enricher-%d-%d", i, l.serial.Add(1))
		items := l.take(ctx, uploadQueue, worker, 1+random.IntN(most))
		if random.IntN(10) == 0 && !l.honest.Load() {
			wait(ctx, time.Duration(random.IntN(1000))*time.Millisecond)
		}
		var reports errgroup.Group
		reports.SetLimit(atOnce)
		for _, it := range items {
			if random.IntN(3*most) == 0 && !l.honest.Load() {
				continue
			}
			reports.Go(func() error { l.reportRow(ctx, worker, it); return nil })
		}
		_ = reports.Wait() // none fails
		if len(items) == 0 {
			wait(ctx, 200*time.Millisecond)
		}
	}
}

func (l *uploadLoad) reportRow(ctx context.Context, worker string, it takenItem) {
	p, row, ok := l.rowOf(uploadQueue, it.Payload)
	if !ok {
		return
	}
	what, body := "done", map[string]any{"worker": worker, "generation": it.Generation}
	switch fate := p.fate(row); {
	case fate == rowMissing:
		body["not_found"] = true
	case fate == rowSkipped:
		body["skipped"] = true
	case fate == rowInvalid:
		what, body["error"], body["class"] = "fail", "no product", "invalid"
	case fate == rowFails && it.Attempt == 1:
		what, body["error"], body["class"], body["delay_s"] = "fail", "broken", "network", 0
	case fate == rowThrottled && it.Attempt == 1:
		what, body["error"], body["class"] = "fail", "busy", "throttled"
		body["domain"], body["retry_after_s"] = shopOf(row), 1
	default:
		body["result"] = map[string]int{"upload": p.n, "row": row}
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
	every, limit := lookEvery, 5*time.Second
	if l.large > 0 {
		every, limit = largeLook, time.Minute
	}
	for ; ctx.Err() == nil; wait(ctx, every) {
		asking, cancel := context.WithTimeout(ctx, limit)
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
	var page struct {
		Items []struct {
			JobID     string `json:"jobId"`
			State     string `json:"queue_state"`
			Total     int    `json:"total_items"`
			Processed int    `json:"processed_items"`
			Rejected  int    `json:"rejected_rows"`
			Statuses  map[string]int
		}
	}
	if l.get(ctx, "/uploads?limit=1000", &page) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = 0
	for _, u := range page.Items {
		l.open += btoi(u.State != "DONE")
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
