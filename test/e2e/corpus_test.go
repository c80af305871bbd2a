package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"
)

var pipeline = []string{"crawled", "indexed", "classified", "routed", "published"}

// sent is an event as a publisher sends it.
type sent struct {
	URL       string         `json:"article_url"`
	Source    string         `json:"source_name"`
	Stage     string         `json:"stage"`
	At        time.Time      `json:"occurred_at"`
	Service   string         `json:"service_name"`
	Key       string         `json:"idempotency_key,omitempty"`
	Canonical string         `json:"canonical_url,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

// article is what counts as one article.
func (e sent) article() string {
	if e.Canonical != "" {
		return e.Canonical
	}
	return e.URL
}

// identity is what counts as one event, stated as plainly as the contract does.
func (e sent) identity() string {
	key := e.Key
	if key == "" {
		version := ""
		if e.Metadata["is_reclassification"] == true {
			version, _ = e.Metadata["model_version"].(string)
		}
		key = fmt.Sprint(e.Service, "|", e.Stage, "|", e.At.UnixNano(), "|", version)
	}
	return key + "|" + e.article()
}

// corpus makes events by fixed rules from a seed.
type corpus struct {
	random   *rand.Rand
	stages   []string
	from     time.Time
	span     time.Duration
	backfill bool
	events   []sent
}

var sources = []string{
	"example_com", "Example News", "Известия", "हिन्दुस्तान", "a", "o'hara \"daily\"", "new\\line", "source%20name",
	"The Times of a Rather Long Name, Which Goes On and On", "0", "日本経済", "émilie",
}

// recent is a corpus of the last 20 hours.
func recent(seed uint64, articles int) *corpus {
	return newCorpus(seed, articles, pipeline, time.Now().Add(-20*time.Hour), 19*time.Hour, false)
}

// months is one of events that are backfilled from long ago.
func months(seed uint64, articles int) *corpus {
	return newCorpus(seed, articles, pipeline, time.Date(2026, 1, 20, 3, 17, 0, 0, time.UTC), 70*24*time.Hour, true)
}

func newCorpus(seed uint64, articles int, stages []string, from time.Time, span time.Duration, backfill bool) *corpus {
	c := &corpus{
		random: rand.New(rand.NewPCG(seed, 1)), stages: stages,
		from: from.UTC().Truncate(time.Microsecond), span: span, backfill: backfill,
	}
	for i := range articles {
		c.article(i)
	}
	return c
}

// article sends one article through the pipeline, as far as it gets.
func (c *corpus) article(i int) {
	first := sent{URL: c.url(i), Source: sources[c.random.IntN(len(sources))], Service: "crawler"}
	if c.chance(8) { // another address of an article, perhaps one that is there, too
		first.Canonical = fmt.Sprintf("https://example.org/a/%d", c.random.IntN(i/2+1))
	}
	at := c.from.Add(time.Duration(c.random.Int64N(int64(c.span))))
	for k, stage := range c.stages {
		e := first
		e.Stage, e.At, e.Metadata = stage, at.Truncate(time.Microsecond), map[string]any{"n": i}
		if k > 0 {
			e.Service = stage + "-service"
		}
		c.add(e)
		c.repeat(e, k)
		if c.chance(5) {
			return
		}
		at = at.Add(time.Duration(c.random.Int64N(int64(10 * time.Minute))))
	}
}

// repeat adds what happens to events: retries, new attempts, reclassifications
// in the same instant, and keys that the publisher chose.
func (c *corpus) repeat(e sent, stage int) {
	if c.chance(10) {
		c.add(e) // a retry: the same event
	}
	if c.chance(6) {
		e.At = e.At.Add(time.Microsecond) // another attempt: another event of this article
		c.add(e)
	}
	if stage == 2 && c.chance(3) {
		e.Metadata = map[string]any{
			"is_reclassification": true, "model_version": fmt.Sprint("v2.", c.random.IntN(3)),
			"quality_score": 61.5,
		}
		c.add(e)
	}
	if e.Canonical == "" && c.chance(12) {
		e.Key, e.Metadata = fmt.Sprint("batch-", c.random.IntN(9)), map[string]any{"topics": []string{"crime", "news"}}
		e.Key += "-" + e.Stage // shared by many articles, each of which counts
		c.add(e)
		e.At = e.At.Add(time.Millisecond) // the same key says that it is the same event
		c.add(e)
	}
}

func (c *corpus) add(e sent) {
	if c.backfill {
		metadata := map[string]any{"backfilled": true}
		maps.Copy(metadata, e.Metadata)
		e.Metadata = metadata
	}
	c.events = append(c.events, e)
}

func (c *corpus) url(i int) string {
	base := fmt.Sprintf("https://%c.example.com/%d/", 'a'+rune(i%7), i)
	switch c.random.IntN(12) {
	case 0:
		return base + "новости/заголовок-№" + fmt.Sprint(i)
	case 1:
		return base + strings.Repeat("x", 2048-len(base)) // the longest that is valid
	case 2:
		return base + "?q=%zz&utm=é#части"
	case 3:
		return "HTTP://User@Example.COM:8080/" + fmt.Sprint(i)
	}
	return base
}

func (c *corpus) chance(oneIn int) bool { return c.random.IntN(oneIn) == 0 }

// lines is the corpus as JSON lines.
func (c *corpus) lines() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, e := range c.events {
		if err := enc.Encode(e); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}
