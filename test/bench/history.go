package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
)

var stageNames = []string{"crawled", "indexed", "classified", "routed", "published"}

const (
	sources = 300
	// span is how much of the day the events cover; they have to be younger
	// than a day when they are received.
	span = 20 * time.Hour
	// tail is left at the end for what follows an article's first event.
	tail = 30 * time.Minute
)

// history is what has happened to articles, in the order of time, as a live
// pipeline would report it. It is the same for the same serial and size, but
// for the times, which lie before its end.
type history struct {
	serial  uint64
	moments []moment
}

type moment struct {
	at      int64 // Unix milliseconds
	article uint32
	stage   uint8
	again   bool // classified once more
}

// newHistory makes n events up. Histories with different serials share no
// articles.
func newHistory(serial uint64, n int, end time.Time) *history {
	h := &history{serial: serial, moments: make([]moment, 0, n)}
	rng := rand.New(rand.NewPCG(serial, 1))
	articles := n*10/46 + 1 // an article has 4.6 events on average
	first := end.Add(-span).UnixMilli()
	room := (span - tail).Milliseconds()
	for article := 0; len(h.moments) < n; article++ {
		at := first + room*int64(article%articles)/int64(articles)
		h.follow(rng, uint32(article), at, n)
	}
	slices.SortStableFunc(h.moments, func(a, b moment) int { return int(a.at - b.at) })
	return h
}

// follow takes an article through the stages, as far as it gets.
func (h *history) follow(rng *rand.Rand, article uint32, at int64, n int) {
	for stage := range uint8(len(stageNames)) {
		if len(h.moments) == n || rng.IntN(25) == 0 && stage > 0 {
			return
		}
		h.moments = append(h.moments, moment{at: at, article: article, stage: stage})
		if stageNames[stage] == "classified" && rng.IntN(50) == 0 && len(h.moments) < n {
			h.moments = append(h.moments, moment{
				at: at + 1 + rng.Int64N(60_000), article: article,
				stage: stage, again: true,
			})
		}
		at += 500 + rng.Int64N(300_000)
	}
}

// count is what a stage of a funnel shows.
type count struct {
	Name     string `json:"name"`
	Events   uint64 `json:"count"`
	Articles uint64 `json:"unique_articles"`
}

// truth is the funnel of the whole history.
func (h *history) truth() []count {
	funnel := make([]count, len(stageNames))
	for i := range funnel {
		funnel[i].Name = stageNames[i]
	}
	for _, m := range h.moments {
		funnel[m.stage].Events++
		if !m.again {
			funnel[m.stage].Articles++
		}
	}
	return funnel
}

// mix spreads a number over all bits (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// shares are the sources' cumulative parts of all articles: a few large ones
// and many small ones.
var shares = func() []float64 {
	sum, all := 0.0, make([]float64, sources)
	for rank := range all {
		sum += 1 / float64(rank+10)
		all[rank] = sum
	}
	for rank := range all {
		all[rank] /= sum
	}
	return all
}()

func (h *history) source(article uint32) int {
	at := float64(mix(h.serial<<32|uint64(article))>>11) / (1 << 53)
	return min(sort.SearchFloat64s(shares, at), sources-1)
}

func (h *history) url(article uint32) string {
	return fmt.Sprintf("https://www.source-%03d.example/2026/news/%016x", h.source(article),
		mix(h.serial<<32|uint64(article)))
}

func (h *history) urlHash(article uint32) string {
	sum := sha256.Sum256([]byte(h.url(article)))
	return hex.EncodeToString(sum[:])
}

// extras are the metadata of each stage.
var extras = [...]string{
	`"status":200,"bytes":48213,"fetch_ms":212,"depth":2,"lang":"en"`,
	`"content_type":"article","index":"news-2026","tokens":871,"shard":14`,
	`"quality_score":78,"topics":["crime","news"],"model_version":"v2.1"`,
	`"channel":"daily","rules_matched":3,"priority":"normal","queue":"out-1"`,
	`"channel":"daily","destination":"web","version":4,"editor":"automatic"`,
}

// appendJSON appends event i, about 300 bytes of JSON.
func (h *history) appendJSON(dst []byte, i int) []byte {
	m := h.moments[i]
	stage := stageNames[m.stage]
	dst = append(dst, `{"article_url":"`...)
	dst = append(dst, h.url(m.article)...)
	dst = append(dst, `","source_name":"source_`...)
	dst = strconv.AppendInt(dst, int64(h.source(m.article)), 10)
	dst = append(dst, `","stage":"`+stage+`","occurred_at":"`...)
	dst = time.UnixMilli(m.at).UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","service_name":"`+stage+`-worker","trace_id":"`...)
	dst = strconv.AppendUint(dst, mix(uint64(i)), 16)
	dst = append(dst, `","metadata_schema_version":1,"metadata":{`+extras[m.stage]...)
	if m.again {
		dst = append(dst, `,"is_reclassification":true`...)
	}
	return append(dst, `}}`...)
}

// messages returns events [from, to) as they travel.
func (h *history) messages(from, to int) ([]client.Message, error) {
	all := make([]client.Message, 0, to-from)
	var record event.Record
	for i := from; i < to; i++ {
		data := h.appendJSON(make([]byte, 0, 360), i)
		if invalid := event.Decode(data, &record); invalid != nil {
			return nil, fmt.Errorf("generated event %s: %w", data, invalid)
		}
		all = append(all, client.EventMessage(&record, data))
	}
	return all, nil
}
