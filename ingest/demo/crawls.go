package demo

import (
	"bytes"
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

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
)

// Commands are what Crawl does beside working the queue of crawls.
type Commands struct {
	// Import makes sources by a list of JSON lines.
	Import func(ctx context.Context, list []byte) error
	Acts   *acts.Store
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
func (d *Demo) Crawl(ctx context.Context, nc *nats.Conn, do Commands) error {
	c := &crawl{work{Demo: d, nc: nc}, do}
	var all errgroup.Group
	all.Go(func() error { c.register(ctx); return nil })
	for i := range crawlers {
		all.Go(func() error {
			c.runAs(ctx, crawlQueue, c.one, client.WorkConfig{
				Worker: fmt.Sprintf("demo-crawler-%d", i+1), Concurrency: 1, Lease: crawlLease,
			})
			return nil
		})
	}
	all.Go(func() error { c.act(ctx); return nil })
	return all.Wait()
}

type crawl struct {
	work
	Commands
}

// site is a source, as lists have it.
type site struct {
	Name      string          `json:"name"`
	URL       string          `json:"url"`
	Enabled   bool            `json:"enabled"`
	Priority  string          `json:"priority"`
	Selectors json.RawMessage `json:"selectors"`
}

// sites are the sources of the sample that are seen most, with the site of each.
func (c *crawl) sites() (all []site) {
	seen, address := map[string]int{}, map[string]string{}
	for _, s := range c.sample.Sightings {
		a := c.sample.Articles[s.Article]
		seen[a.Source]++
		if u, err := url.Parse(a.URL); err == nil && address[a.Source] == "" {
			address[a.Source] = u.Scheme + "://" + u.Host + "/"
		}
	}
	names := slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), strings.Compare(a, b))
	})
	for i, name := range names[:min(len(names), crawlSources)] {
		all = append(all, site{
			Name: name, URL: address[name], Enabled: i%12 != 11,
			Priority:  []string{"low", "normal", "high", "critical"}[i%4],
			Selectors: json.RawMessage(`{"title":"h1","body":"article"}`),
		})
	}
	return all
}

// schedules are how the first jobs run; the others crawl every few minutes.
var schedules = map[int]string{
	1: `{"cron":"*/10 * * * *","time_zone":"Europe/Berlin"}`,
	2: `{"interval_minutes":2,"max_attempts":3,"retry_delay_seconds":10}`,
	5: `{"interval_minutes":1,"overlap_policy":"buffer_one","jitter_seconds":20}`,
	6: `{"interval_minutes":30,"crawl_window":{"start_hour":6,"end_hour":22,"time_zone":"Europe/Berlin"}}`,
}

// scheduled is how the job of a source runs, as lists have it.
type scheduled struct {
	URL string          `json:"url"`
	Job json.RawMessage `json:"job"`
}

func scheduledOf(sites []site) (all []scheduled) {
	for i, s := range sites {
		if s.Enabled {
			text := cmp.Or(schedules[i], fmt.Sprintf(`{"interval_minutes":%d}`, 1+i%5))
			all = append(all, scheduled{s.URL, json.RawMessage(text)})
		}
	}
	return all
}

// list returns a list of JSON lines.
func list[T any](all []T) []byte {
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	for _, one := range all {
		_ = lines.Encode(one) // to memory
	}
	return text.Bytes()
}

// pausedJob is the job that is paused.
const pausedJob = 9

// jobFilter selects jobs; of any priority, if that is -1.
type jobFilter struct {
	Q        string `json:"q,omitempty"`
	Status   string `json:"status,omitempty"`
	Priority int    `json:"priority"`
}

// register makes the sources, unless there are some. Once they have their jobs, it sets how these run, pauses one, and
// runs the others at once. Settings that jobs were made with would leave their first runs where they are by default.
func (c *crawl) register(ctx context.Context) {
	sites := c.sites()
	jobs := scheduledOf(sites)
	var there acts.ActCount
	count := func(subject string, filter any) (err error) {
		there, err = c.Acts.Count(ctx, acts.Request{Subject: subject, Filter: filter})
		return err
	}
	if !c.persist(ctx, func() error { return count("sources", struct{}{}) }) || there.Matched > 0 ||
		!c.persist(ctx, func() error { return c.Import(ctx, list(sites)) }) {
		return
	}
	c.persist(ctx, func() error {
		err := count("jobs", jobFilter{Priority: -1})
		if err == nil && there.Matched < len(jobs) {
			err = fmt.Errorf("%d of %d sources have a job", there.Matched, len(jobs))
		}
		return err
	})
	c.persist(ctx, func() error { return c.Import(ctx, list(jobs)) })
	c.begin(ctx, acts.Request{Subject: "jobs", Move: "pause", Filter: jobFilter{Q: sites[pausedJob].URL, Priority: -1}})
	c.begin(ctx, acts.Request{Subject: "jobs", Move: "force-run", Filter: jobFilter{Status: "pending", Priority: -1}})
}

// one works a run for some seconds. One site refuses, and another one answers now and then.
func (c *crawl) one(ctx context.Context, it client.Item) error {
	begin, pages := time.Now(), 2+rand.IntN(4)
	for page := range pages {
		client.Progress(ctx, fmt.Sprintf("page %d of %d", page+1, pages))
		if err := sleep(ctx, 300*time.Millisecond, 1500*time.Millisecond); err != nil {
			return err
		}
	}
	var of struct {
		SourceName string `json:"source_name"`
	}
	if err := json.Unmarshal(it.Payload, &of); err != nil {
		return client.Permanent(err)
	}
	if fault := faultOf(of.SourceName); fault != "" {
		return client.Permanent(errors.New(fault))
	}
	return client.SetResult(ctx, json.RawMessage(fmt.Appendf(nil, `{"articles_count":%d,"duration_seconds":%.1f}`,
		3+rand.IntN(60), time.Since(begin).Seconds())))
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
		c.begin(ctx, acts.Request{
			Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: Queue, State: "failed"},
		})
		c.begin(ctx, acts.Request{
			Subject: items.Name, Move: items.Cancel,
			Filter: items.ItemFilter{Queue: Queue, State: "scheduled", Group: laterGroup},
		})
	}
}

// begin begins a bulk action, unless it would be about nothing.
func (c *crawl) begin(ctx context.Context, r acts.Request) {
	r.By = "demo"
	c.persist(ctx, func() error {
		n, err := c.Acts.Count(ctx, r)
		if err == nil && n.Matched > 0 {
			_, _, err = c.Acts.Begin(ctx, r)
		}
		return err
	})
}
