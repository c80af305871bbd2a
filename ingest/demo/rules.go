package demo

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/ingest/demo/internal/sample"
	"github.com/millrace-io/millrace/schemas/event"
)

// visit is a sighting as the rules see it.
type visit struct {
	article *sample.Article
	number  int // of the article
	edition string
	kind    visitKind
	later   bool // since the model has a new version
}

type visitKind uint8

const (
	newArticle visitKind = iota
	repeated             // the crawler knows the article and stops there
	nextRound            // the sample has begun again: all is done anew
)

// step is an event that comes of a sighting, after some time.
type step struct {
	after time.Duration
	event event.Event
}

// rules say what comes of a sighting. The first step is at once and the others
// each later than the one before; the events have no time yet.
type rules func(visit) []step

func rulesFor(stages event.Stages) rules {
	if strings.Join(stages.Names(), ",") == event.DefaultStages {
		return newsRules
	}
	// The caller of Names must not change them, and need not copy them.
	return stageRules(stages.Names())
}

// minScore is the quality from which an article is routed.
const minScore = 50

// newsRules are those of a news pipeline: all but one in 61 is indexed; classified
// when it has a category; routed when its score, made of its rank, length and
// picture, is good enough (the new version of the model judges otherwise), to
// the channel of its first category; published but for one in 97 that fails.
// Delays depend on the URL.
func newsRules(v visit) []step {
	a, h := v.article, hash(v.article.URL)
	steps := []step{v.step(0, "crawled", "crawler", map[string]any{
		"response_code": 200, "content_length": a.Length, "is_duplicate": v.kind != newArticle,
	})}
	if v.kind == repeated || h%61 == 0 {
		return steps
	}
	steps = append(steps, v.step(millis(300+h%700), "indexed", "crawler", map[string]any{
		"index": strings.ReplaceAll(strings.ToLower(a.Source), " ", "_") + "_raw_content", "doc_id": "demo-" +
			strconv.Itoa(v.number),
	}))
	if len(a.Categories) == 0 {
		return steps
	}
	score := v.score()
	classified := millis(1500 + h%6000)
	steps = append(steps, v.step(classified, "classified", "classifier", v.classification(score, h)))
	if score < minScore {
		return steps
	}
	channel := "articles:" + a.Categories[0]
	routed := classified + millis(500+h%500)
	steps = append(steps, v.step(routed, "routed", "publisher", map[string]any{
		"route_id": a.Categories[0], "channel": channel, "min_quality_score": minScore, "matched_topics": a.Categories,
	}))
	if h%97 == 0 {
		return steps
	}
	return append(steps, v.step(routed+millis(700+400*(h%5)), "published", "publisher", map[string]any{
		"channel": channel, "redis_subscribers": 1 + h%3, "attempt": 1,
	}))
}

func (v visit) score() int {
	a := v.article
	score := 90 - a.Rank/2 + min(10, a.Length/1000)
	if !a.Image {
		score -= 20
	}
	if v.later {
		score = 20 + score*7/10
	}
	return min(max(score, 0), 100)
}

func (v visit) classification(score int, h uint32) map[string]any {
	m := map[string]any{
		"quality_score": score, "topics": v.article.Categories, "content_type": "article", "model_version": "v2.0",
		"processing_time_ms": 20 + h%180, "confidence": math.Round(500+float64(h%500)) / 1000,
	}
	if v.later {
		m["model_version"] = "v2.1"
	}
	if v.kind == nextRound {
		m["model_version"], m["is_reclassification"] = "v2.2", true
	}
	return m
}

// stageRules are those of a pipeline of which nothing is known: four fifths of
// the articles in a stage go on to the next, a second or two later.
func stageRules(stages []string) rules {
	return func(v visit) []step {
		h := uint64(hash(v.article.URL))
		var steps []step
		var after time.Duration
		for i, stage := range stages {
			m := map[string]any{"step": i + 1}
			if i == 0 {
				m["is_duplicate"] = v.kind != newArticle
			}
			if len(v.article.Categories) > 0 {
				m["topics"] = v.article.Categories
			}
			steps = append(steps, v.step(after, stage, stage, m))
			h = h*6364136223846793005 + 1442695040888963407 // of a generator of random numbers
			if v.kind == repeated || (h>>40)%5 == 0 {
				break
			}
			after += millis(uint32(500 + (h>>33)%2000))
		}
		return steps
	}
}

func (v visit) step(after time.Duration, stage, service string, metadata map[string]any) step {
	metadata["demo"] = true
	return step{after, event.Event{
		ArticleURL: editionOf(v.article.URL, v.edition), SourceName: v.article.Source, Stage: stage, ServiceName: "demo-" + service,
		Metadata: metadata,
	}}
}

// editionOf is the URL of an article as another article: what is replayed again is new.
func editionOf(article, edition string) string {
	if len(article)+len(edition) > 2000 {
		return article
	}
	page, fragment, fragmented := strings.Cut(article, "#")
	mark := "?"
	if strings.Contains(page, "?") {
		mark = "&"
	}
	page += mark + "demo=" + edition
	if fragmented {
		page += "#" + fragment
	}
	return page
}

func hash(url string) uint32 {
	sum := sha256.Sum256([]byte(url))
	return binary.BigEndian.Uint32(sum[:])
}

func millis(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }
