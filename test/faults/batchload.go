package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Of the batches.
const (
	batchEvery = 250 * time.Millisecond
	lookEvery  = 200 * time.Millisecond
	flipEvery  = 3 * time.Second // about
)

// recrawlQueues have the items that are tried again here.
var recrawlQueues = []string{"recrawl-network", "recrawl-storage"}

// batchLoad is the fourth workload: batches are announced in all formats while these are
// switched on and off, their objects are read from a storage that obeys faults, and workers try
// errors again. What is stored is analysed by an analyser that obeys faults, too. Meanwhile the sums of batches are looked at.
type batchLoad struct {
	*crew
	objects  *objectStore
	analyser *analyser
	dsn      recordOf
	rows     database
	natsURL  string              // of who announces
	js       jetstream.JetStream // over no wire

	mu      sync.Mutex
	sent    map[batchID]*sentBatch
	strange int                // announcements that break a rule, acknowledged
	retried map[outcomeID]bool // by workers who were told so
	replays int                // of dead letters
	looks   int
	known   int       // batches at the last look
	grown   time.Time // when there were more
}

// batchID is a batch, and outcomeID an item of it.
type batchID struct {
	job   string
	index int
}

type outcomeID struct {
	batchID
	position int
}

// sentBatch is one that is announced, with what it holds: at first, and when it is overwritten.
type sentBatch struct {
	contents []batchContent
	acked    bool
}

// batchContent is what a batch may hold, and what becomes of its items.
type batchContent struct {
	items    []string
	hash     [sha256.Size]byte
	text     []byte
	outcomes []itemFate
}

// itemFate is what becomes of an item.
type itemFate int

const (
	itemOK itemFate = iota
	itemError
	itemRetried
)

func newBatchLoad(seed uint64, c *cluster, js jetstream.JetStream) *batchLoad {
	l := &batchLoad{
		crew: newCrew(seed, c, newWorkNotes(c.postgres.clock), recrawlQueues...), objects: newObjectStore(seed, c.objectsAddr),
		analyser: newAnalyser(seed, c.shared.natsURL(stream.RoleAnalyser)),
		dsn:      recordOf(c.postgresURL(c.postgresAddr)), rows: database{c.chHTTP}, natsURL: c.publishURL(), js: js,
		sent: map[batchID]*sentBatch{}, retried: map[outcomeID]bool{},
	}
	l.own = true
	return l
}

// makeContent makes what the nth batch holds. Inline items are hashed one by one.
func makeContent(n, version int, inline bool) (c batchContent) {
	sum := sha256.New()
	for i := range 8 + n%5 + version {
		id := fmt.Sprintf(`{"content_id":"%d-%d-%d"`, n, version, i)
		fate, rest := itemOK, `,"fetch_status":"success","text":"`+strings.Repeat("x", i*20)+`"}`
		switch (n + 3*i + version) % 8 {
		case 0:
			fate, rest = itemRetried, `,"fetch_status":"error","error_code":"TIMEOUT"}`
		case 1:
			fate, rest = itemRetried, `,"fetch_status":"error","error_code":"UPLOAD_FAILED"}`
		case 2:
			fate, rest = itemError, `,"fetch_status":"error","error_code":"CONTENT_REMOVED"}`
		case 3:
			fate, rest = itemError, `}` // without a status
		}
		c.items, c.outcomes = append(c.items, id+rest), append(c.outcomes, fate)
		sum.Write([]byte(id + rest + "\n"))
	}
	c.text = []byte("[" + strings.Join(c.items, ",\n") + "]")
	if c.hash = sha256.Sum256(c.text); inline {
		sum.Sum(c.hash[:0])
	}
	return c
}

// count returns how many items have a fate.
func (c batchContent) count(of itemFate) (n int) {
	for _, fate := range c.outcomes {
		n += btoi(fate == of)
	}
	return n
}

// run announces batches until announcing ends, and works until working ends.
func (l *batchLoad) run(announcing, working context.Context) error {
	nc, err := connect(l.natsURL)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	g, working := errgroup.WithContext(working)
	g.Go(func() error { return l.objects.run(working) })
	g.Go(func() error { l.flip(announcing, working); return nil })
	g.Go(func() error { l.look(working); return nil })
	g.Go(func() error { l.replay(working); return nil })
	for i, queue := range recrawlQueues {
		g.Go(func() error { l.dsn.shortenLease(working, queue); return nil })
		g.Go(func() error { l.retry(working, queue, i); return nil })
	}
	var sending sync.WaitGroup
	every := time.NewTicker(batchEvery)
	defer every.Stop()
	for n := 0; announcing.Err() == nil && working.Err() == nil; n++ {
		sending.Go(func() { l.send(working, js, n) })
		select {
		case <-every.C:
		case <-announcing.Done():
		}
	}
	sending.Wait()
	return g.Wait()
}

// send announces the nth batch until that is acknowledged: in a format of its own, some twice,
// some before their object is there.
func (l *batchLoad) send(ctx context.Context, js jetstream.JetStream, n int) {
	id := batchID{fmt.Sprintf("proj_%d-brand-%d", n%5, n%3), n}
	bucket, key := fmt.Sprint("crawl-", n%2), fmt.Sprintf("tiktok/%s/batch_%06d.json", id.job, n)
	inline := n%4 == 2
	b := &sentBatch{contents: []batchContent{makeContent(n, 0, inline)}}
	if !inline {
		b.contents = append(b.contents, makeContent(n, 1, false))
	}
	l.mu.Lock()
	l.sent[id] = b
	l.mu.Unlock()
	message := announcement(n%4, id, bucket, key, b.contents[0])
	random := rand.New(rand.NewPCG(l.seed, 1000+uint64(n)))
	store := func() {
		if !inline {
			l.objects.put(bucket+"/"+key, b.contents[0].text, b.contents[1].text)
		}
	}
	late := n%6 == 0
	if !late {
		store()
	}
	if n%25 == 7 && l.announce(ctx, js, true, `{"payload":{"minio_path":"crawl/../a","job_id":"j","batch_index":0}}`) {
		l.mu.Lock()
		l.strange++
		l.mu.Unlock()
	}
	if l.announce(ctx, js, n%2 == 0, message) {
		l.mu.Lock()
		b.acked = true
		l.mu.Unlock()
	}
	wait(ctx, time.Duration(random.IntN(2500))*time.Millisecond)
	if late {
		store()
	}
	if n%3 == 0 { // again, maybe after it is overwritten
		l.announce(ctx, js, n%2 == 1, message)
	}
}

func announcement(format int, id batchID, bucket, key string, c batchContent) string {
	switch format {
	case 0:
		return fmt.Sprintf(`{"payload":{"minio_path":"%s/%s","job_id":%q,"batch_index":%d,"platform":"tiktok"}}`, bucket, key,
			id.job, id.index)
	case 1:
		return fmt.Sprintf(`{"data_ref":{"bucket":%q,"path":%q},"job_id":%q,"batch_index":%d}`, bucket, key, id.job, id.index)
	case 2:
		return fmt.Sprintf(`{"job_id":%q,"batch_index":%d,"items":[%s]}`, id.job, id.index, strings.Join(c.items, ","))
	}
	return fmt.Sprintf(`{"Records":[{"eventName":"s3:ObjectCreated:Put","s3":{"bucket":{"name":%q},"object":{"key":%q}}}]}`,
		bucket, strings.ReplaceAll(key, "/", "%2F"))
}

// announce insists on an acknowledgement, over NATS or HTTP.
func (l *batchLoad) announce(ctx context.Context, js jetstream.JetStream, overJS bool, message string) bool {
	if !overJS {
		return l.insist(ctx, "/batches", json.RawMessage(message), nil).status == http.StatusAccepted
	}
	return backoff.Do(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, stream.BatchCollected, []byte(message), jetstream.WithRetryAttempts(0))
		return err
	}, nil) == nil
}

// flip switches formats on and off, and in the end on.
func (l *batchLoad) flip(ctx, working context.Context) {
	random := rand.New(rand.NewPCG(l.seed, 61))
	for ctx.Err() == nil {
		l.demand(ctx, http.MethodPut, "/batches/modes", map[string]any{
			"new_mode": random.IntN(3) > 0, "legacy_mode": random.IntN(3) > 0, "new_mode_share": random.Float64(),
		}, nil)
		wait(ctx, time.Duration(random.Int64N(2*int64(flipEvery))))
	}
	l.demand(working, http.MethodPut, "/batches/modes",
		map[string]any{"new_mode": true, "legacy_mode": true, "new_mode_share": 1}, nil)
}

// replay has announcements taken again whose objects were damaged, as somebody would who has
// mended the storage.
func (l *batchLoad) replay(ctx context.Context) {
	body := map[string]any{"filter": map[string]string{"stream": stream.Batches, "code": "object_damaged"}}
	for ctx.Err() == nil {
		var done struct{ Replayed int }
		l.insist(ctx, "/dlq/replay", body, &done)
		l.mu.Lock()
		l.replays += done.Replayed
		l.mu.Unlock()
		wait(ctx, time.Second)
	}
}

// retry works items of a queue of retries, all of which are crawled now.
func (l *batchLoad) retry(ctx context.Context, queue string, i int) {
	for ctx.Err() == nil {
		worker := fmt.Sprintf("recrawler-%d-%d", i, l.serial.Add(1))
		items := l.take(ctx, queue, worker, 5)
		for _, it := range items {
			var task struct {
				JobID      string `json:"job_id"`
				BatchIndex int    `json:"batch_index"`
				Position   int    `json:"position"`
				ContentID  string `json:"content_id"`
			}
			if err := json.Unmarshal(it.Payload, &task); err != nil {
				l.notes.fail("%s has an item whose payload is %.100s: %v", queue, it.Payload, err)
				continue
			}
			path := fmt.Sprintf("/queues/%s/items/%d/done", queue, it.ID)
			r := l.insist(ctx, path, map[string]any{
				"worker": worker, "generation": it.Generation,
				"result": map[string]string{"content_id": task.ContentID, "fetch_status": "success"},
			}, nil)
			if r.status == http.StatusOK {
				l.mu.Lock()
				l.retried[outcomeID{batchID{task.JobID, task.BatchIndex}, task.Position}] = true
				l.mu.Unlock()
			}
		}
		if len(items) == 0 {
			wait(ctx, 300*time.Millisecond)
		}
	}
}

// batchNow is what is said of a batch, or of several.
type batchNow struct {
	JobID      string `json:"job_id"`
	BatchIndex int    `json:"batch_index"`
	Batches    int    `json:"batches"`
	Count      int    `json:"content_count"`
	OK         int    `json:"ok"`
	Error      int    `json:"error"`
	Retrying   int    `json:"retrying"`
}

// look holds what is shown of batches to their sums, all the time.
func (l *batchLoad) look(ctx context.Context) {
	for ; ctx.Err() == nil; wait(ctx, lookEvery) {
		var page struct{ Items []batchNow }
		var sum batchNow
		if l.get(ctx, "/batches?limit=100", &page) != nil || l.get(ctx, "/batches/summary", &sum) != nil {
			continue
		}
		l.mu.Lock()
		l.looks++
		if sum.Batches > l.known {
			l.known, l.grown = sum.Batches, time.Now()
		}
		for _, now := range append(page.Items, sum) {
			if now.OK+now.Error+now.Retrying != now.Count || min(now.OK, now.Error, now.Retrying) < 0 {
				l.notes.fail("at a look, the sums of %+v do not add up", now)
			}
			sent := l.sent[batchID{now.JobID, now.BatchIndex}]
			if sent != nil && !slices.ContainsFunc(sent.contents, func(c batchContent) bool { return c.allows(now) }) {
				l.notes.fail("at a look, %+v is shown, which no content gives", now)
			}
		}
		l.mu.Unlock()
	}
}

// allows tells whether a batch with the content may be shown so: retries turn errors into successes.
func (c batchContent) allows(now batchNow) bool {
	return now.Count == len(c.items) && now.Error == c.count(itemError) && now.OK >= c.count(itemOK)
}

// beyond waits until batches are stored after a moment.
func (l *batchLoad) beyond(begin time.Time, limit time.Duration) bool {
	return within(limit, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.grown.After(begin)
	})
}
