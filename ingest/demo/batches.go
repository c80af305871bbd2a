package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/batches"
	"github.com/millrace-io/millrace/schemas/stream"
)

const (
	batchEvery = 20 * time.Second
	// batchesFirst is how many batches a demo with a warm-up begins with.
	batchesFirst = 12
	// batchItems is how many items a batch has, as batches of YouTube do.
	batchItems = 20
)

// Batches announces batches of crawled items, and crawls those again that failed, until ctx ends.
func (d *Demo) Batches(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	p := &posts{work: work{Demo: d, nc: nc, js: js}, start: strconv.FormatInt(time.Now().Unix(), 10)}
	var all errgroup.Group
	all.Go(func() error { p.announce(ctx); return nil })
	for _, policy := range batches.Policies() {
		all.Go(func() error { p.run(ctx, policy.Queue, p.again); return nil })
	}
	return all.Wait()
}

// posts are items of batches, made of articles.
type posts struct {
	work
	start string // tells the batches of this start from others; digits
}

// brands are what is crawled for, one after another.
var brands = []string{"vinfast", "northwind", "contoso"}

func (p *posts) announce(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		text, err := json.Marshal(p.batch(n))
		if err != nil || !p.publish(ctx, stream.BatchCollected, text) {
			return
		}
		if !p.cfg.WarmUp || n+1 >= batchesFirst {
			_ = sleep(ctx, batchEvery/2, batchEvery*3/2)
		}
	}
}

// inline is a batch whose items are in its message.
type inline struct {
	JobID      string `json:"job_id"`
	BatchIndex int    `json:"batch_index"`
	Platform   string `json:"platform"`
	TaskType   string `json:"task_type"`
	Keyword    string `json:"keyword"`
	Count      int    `json:"content_count"`
	Items      []any  `json:"items"`
}

// batch makes a batch. The first one has an item that cannot be read, and lacks one that it announces.
func (p *posts) batch(n int) inline {
	brand := brands[n%len(brands)]
	b := inline{
		JobID: "proj_demo-" + brand + "-" + p.start, BatchIndex: n / len(brands), Platform: "youtube",
		TaskType: "research_and_crawl", Keyword: brand, Count: batchItems,
	}
	for i := range batchItems {
		b.Items = append(b.Items, p.post(fmt.Sprintf("%s-%d-%d", p.start, n, i)))
	}
	if n == 0 {
		b.Items = append([]any{"<html>"}, b.Items[2:]...)
	}
	return b
}

// post is an item: one in ten was not fetched.
func (p *posts) post(id string) map[string]any {
	a := p.sample.Articles[rand.IntN(len(p.sample.Articles))]
	post := map[string]any{
		"content_id": id, "permalink": a.URL, "crawled_at": time.Now().UTC(), "fetch_status": batches.Success, "demo": true,
	}
	if rand.IntN(10) == 0 {
		return p.fails(post)
	}
	views := rand.IntN(50_000)
	post["interaction"] = map[string]any{"views": views, "likes": views / 20, "comments_count": views / 200, "shares": views / 500}
	return post
}

// fails has an item fail, as crawls of sites do: most often because the site lets no more requests in.
func (p *posts) fails(post map[string]any) map[string]any {
	errs := [][2]string{
		{"RATE_LIMITED", "the site answered 429"},
		{"RATE_LIMITED", "the site answered 429"},
		{"TIMEOUT", "no answer within 10 s"},
		{"CONTENT_REMOVED", "the author has removed it"},
		{"MEDIA_DOWNLOAD_FAILED", "the picture ended early"},
		{"UPLOAD_FAILED", "the storage answered 503"},
	}
	e := errs[rand.IntN(len(errs))]
	post["fetch_status"], post["error_code"], post["fetch_error"] = batches.Failure, e[0], e[1]
	return post
}

// again crawls an item that has failed. Two in three succeed.
func (p *posts) again(ctx context.Context, it client.Item) error {
	if err := sleep(ctx, 500*time.Millisecond, 2*time.Second); err != nil {
		return err
	}
	var asked struct {
		ContentID string `json:"content_id"`
	}
	if err := json.Unmarshal(it.Payload, &asked); err != nil {
		return client.Permanent(err)
	}
	if asked.ContentID == "" {
		return client.Permanent(errors.New("it says no content_id"))
	}
	post := p.post(asked.ContentID)
	if rand.IntN(4) == 0 {
		post = p.fails(post)
	}
	return client.SetResult(ctx, post)
}
