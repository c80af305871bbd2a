package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/sources"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// Stores are where sources, jobs and queues are.
type Stores struct {
	Sources *sources.Store
	Jobs    *jobs.Store
	Acts    *acts.Store
	Queues  *userqueue.Store
	Hands   *handout.Handout
}

const (
	crawlQueue   = "crawl"
	crawlSources = 24
	crawlers     = 4
	crawlLease   = 30 * time.Second
	// actEvery is how often a bulk action is begun, and firstAct how long after the start
	// the first one is.
	actEvery, firstAct = 15 * time.Minute, 30 * time.Second
)

// Crawl registers sources, crawls them when their jobs are due, and begins a bulk action
// now and then, until ctx ends. Nothing is fetched. Sources that are there stay as they are.
func (d *Demo) Crawl(ctx context.Context, s Stores) error {
	c := &crawl{work: work{Demo: d}, Stores: s}
	var all errgroup.Group
	all.Go(func() error { c.register(ctx); return nil })
	for i := range crawlers {
		all.Go(func() error { c.run(ctx, fmt.Sprintf("demo-crawler-%d", i+1)); return nil })
	}
	all.Go(func() error { c.act(ctx); return nil })
	return all.Wait()
}

type crawl struct {
	work
	Stores
}

// sites are the sources of the sample that are seen most, with the site of each.
func (c *crawl) sites() (all []source.Fields) {
	seen, site := map[string]int{}, map[string]string{}
	for _, s := range c.sample.Sightings {
		a := c.sample.Articles[s.Article]
		seen[a.Source]++
		if u, err := url.Parse(a.URL); err == nil && site[a.Source] == "" {
			site[a.Source] = u.Scheme + "://" + u.Host + "/"
		}
	}
	names := slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), strings.Compare(a, b))
	})
	for i, name := range names[:min(len(names), crawlSources)] {
		f := source.New()
		f.Name, f.URL, f.Enabled = name, site[name], i%12 != 11
		f.Priority = source.Priorities[i%len(source.Priorities)]
		f.Selectors = json.RawMessage(`{"title":"h1","body":"article"}`)
		all = append(all, f)
	}
	return all
}

// register makes the sources, and has their jobs run each in its way.
func (c *crawl) register(ctx context.Context) {
	var there int64
	if !c.persist(ctx, func() (err error) { there, err = c.Sources.Count(ctx, sources.Filter{}); return err }) || there > 0 {
		return
	}
	for i, f := range c.sites() {
		var made source.CrawlSource
		if !c.persist(ctx, func() (err error) { made, err = c.Sources.Create(ctx, f); return err }) {
			return
		}
		if f.Enabled && !c.schedule(ctx, i, made.ID) {
			return
		}
	}
}

// schedules are how the first jobs run; the others crawl every few minutes.
var schedules = map[int]string{
	1: `{"cron":"*/10 * * * *","time_zone":"Europe/Berlin"}`,
	2: `{"interval_minutes":2,"max_attempts":3,"retry_delay_seconds":10}`,
	5: `{"interval_minutes":1,"overlap_policy":"buffer_one","jitter_seconds":20}`,
	6: `{"interval_minutes":30,"crawl_window":{"start_hour":6,"end_hour":22,"time_zone":"Europe/Berlin"}}`,
}

// pausedJob is the job that is paused.
const pausedJob = 9

// schedule sets how the job of a source runs, once there is one, and runs it at once.
func (c *crawl) schedule(ctx context.Context, number int, of uuid.UUID) bool {
	text, special := schedules[number]
	if !special {
		text = fmt.Sprintf(`{"interval_minutes":%d}`, 1+number%5)
	}
	draft := job.ReadDraft([]byte(text))
	jobs.CheckCron(draft)
	operation := jobs.OpForceRun
	if number == pausedJob {
		operation = jobs.OpPause
	}
	return c.persist(ctx, func() error {
		j, err := c.Jobs.OfSource(ctx, of)
		if err == nil {
			_, err = c.Jobs.Set(ctx, j.ID, draft)
		}
		if err == nil {
			_, err = c.Jobs.Do(ctx, operation, j.ID)
		}
		var refusal *jobs.Refusal
		if errors.As(err, &refusal) { // its first run has begun by itself
			return nil
		}
		return err
	})
}

// run crawls as one worker.
func (c *crawl) run(ctx context.Context, worker string) {
	for ctx.Err() == nil {
		var taken []queue.Result
		if !c.persist(ctx, func() (err error) {
			taken, err = c.Hands.Take(ctx, crawlQueue, worker, 1, crawlLease)
			return err
		}) {
			return
		}
		for _, it := range taken {
			c.one(ctx, worker, it)
		}
		if len(taken) == 0 {
			_ = sleep(ctx, time.Second, 2*time.Second)
		}
	}
}

// one works a run for some seconds. One site refuses, and another one answers now and then.
func (c *crawl) one(ctx context.Context, worker string, it queue.Result) {
	q, items, err := c.find(ctx, it.ID)
	if err != nil || len(items) == 0 {
		return // the lease ends, and it is handed out again
	}
	pages := 2 + rand.IntN(4)
	command := queue.Command{ID: it.ID, Generation: it.Generation, Worker: worker, Lease: crawlLease}
	begin := time.Now()
	for page := range pages {
		command.Progress = fmt.Sprintf("page %d of %d", page+1, pages)
		if _, err := c.Queues.Queues().Extend(ctx, q, []queue.Command{command}); err != nil {
			return
		}
		if sleep(ctx, 300*time.Millisecond, 1500*time.Millisecond) != nil {
			return
		}
	}
	var of struct {
		SourceName string `json:"source_name"`
	}
	if err := json.Unmarshal(items[0].Payload, &of); err != nil {
		c.log.Warn("a run of the demo cannot be read", "error", err)
		return
	}
	move := item.Complete
	switch fault := faultOf(of.SourceName); fault {
	case "":
		command.Result = fmt.Appendf(nil, `{"articles_count":%d,"duration_seconds":%.1f}`, 3+rand.IntN(60),
			time.Since(begin).Seconds())
	default:
		move, command.Error = item.Fail, fault
	}
	c.persist(ctx, func() error {
		_, err := c.Queues.Queues().Apply(ctx, q, move, []queue.Command{command})
		return err
	})
}

// find reads an item of the queue of runs.
func (c *crawl) find(ctx context.Context, id int64) (queue.ID, []userqueue.Stored, error) {
	v, err := c.Queues.Get(ctx, crawlQueue)
	if err != nil {
		return 0, nil, err
	}
	items, err := c.Queues.Items(ctx, userqueue.Page{Queue: v.ID, IDs: []int64{id}, Limit: 1})
	return v.ID, items, err
}

// faultOf is what a crawl of a source fails with; empty: with nothing. The name decides, so that each demonstration has
// sources that fail.
func faultOf(name string) string {
	switch n := hash(name) % 8; {
	case n == 0:
		return "the site answered 403 Forbidden: it does not let crawlers in"
	case n == 1 && rand.IntN(3) == 0:
		return fmt.Sprintf("the site did not answer within %d ms", 10_000+rand.IntN(1000))
	}
	return ""
}

// act retries the pictures that have failed, now and then.
func (c *crawl) act(ctx context.Context) {
	for wait := firstAct; ; wait = actEvery {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		for _, r := range []acts.Request{
			{Subject: items.Name, Move: items.Retry, By: "demo", Filter: items.ItemFilter{Queue: Queue, State: "failed"}},
			{
				Subject: items.Name, Move: items.Cancel, By: "demo",
				Filter: items.ItemFilter{Queue: Queue, State: "scheduled", Group: laterGroup},
			},
		} {
			c.persist(ctx, func() error {
				n, err := c.Acts.Count(ctx, r)
				if err == nil && n.Matched > 0 {
					_, _, err = c.Acts.Begin(ctx, r)
				}
				return err
			})
		}
	}
}
