package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

// dedupWindow is how long the broker remembers ids: short, so that repeats
// fall on either side of its end.
const dedupWindow = time.Second

// tick is the time between two deliveries.
const tick = 50 * time.Millisecond

// madeLimit is how many events a history remembers that goes on for long.
const madeLimit = 200_000

// fact is what an event says, once, however often it is sent.
type fact struct {
	id      string // its identity, as bytes
	msgID   string
	stage   string
	service string
	source  string
	quarter int64 // of the hour it happened in, Unix seconds
	article string
	hash    [sha256.Size]byte
	at      int64 // when it happened, Unix nanoseconds
	aged    bool  // it is marked as a backfill, and may be of any age
}

// conflicts tells whether another fact with its identity is another event.
func (f *fact) conflicts(other *fact) bool {
	return f.stage != other.stage || f.service != other.service
}

// valid tells whether it may count for who receives it at a time.
func (f *fact) valid(received time.Time) bool {
	age := received.UnixNano() - f.at
	return age >= -int64(5*time.Second) && (f.aged || age <= int64(24*time.Hour))
}

// item is a message to publish.
type item struct {
	body    string
	fact    *fact  // nil: the event breaks a rule whenever it is received
	subject string // over NATS
	// msgID is the Nats-Msg-Id over NATS, of what a stock client sends.
	msgID string
	turn  turn // over NATS
}

// turn says who sends a message over NATS, and when.
type turn uint8

const (
	own        turn = iota // Millrace's publisher
	stockFirst             // a stock client, before that
	stockLast              // a stock client, when all others are acknowledged
)

// delivery is what one publisher sends at once.
type delivery struct {
	http  bool
	items []item
}

// history makes deliveries by fixed rules from a seed and a begin.
type history struct {
	random  *rand.Rand
	begin   time.Time
	perTick int
	ticks   int
	// published is the last event of that stage with a computed key.
	published *event.Event
	made      []event.Event // valid events, to be sent again or to go on from
	serial    int
	pool      int           // of articles; 0: new ones all the time
	late      time.Duration // by how much events are that come late, beyond an hour
	aged      time.Duration // by how much backfills are older than two days, at most
	calm      bool          // without attacks
}

func newHistory(seed uint64, rate int, begin time.Time) *history {
	return &history{
		random: rand.New(rand.NewPCG(seed, 1)), begin: begin.UTC().Truncate(time.Microsecond),
		perTick: max(1, rate*int(tick/time.Millisecond)/1000), late: 19 * time.Hour, aged: 40 * 24 * time.Hour,
	}
}

func sourceNames() []string {
	return []string{"example_com", "Example News", "Известия", "o'hara \"daily\"", "a.b > * c", "日本経済", "source%20name"}
}

// next returns what is sent at the next tick; most ticks are alike, some are
// bursts, some silent.
func (h *history) next() delivery {
	h.ticks++
	n := 1 + h.random.IntN(2*h.perTick)
	switch h.random.IntN(40) {
	case 0:
		n *= 12
	case 1, 2, 3:
		n = 1
	}
	d := delivery{http: h.random.IntN(5) < 2}
	for range n {
		d.items = append(d.items, h.item())
	}
	if !d.http && !h.calm && h.random.IntN(3) == 0 {
		d.items = append(d.items, h.attack()...)
	}
	return d
}

func (h *history) item() item {
	if h.random.IntN(30) == 0 {
		return h.invalid()
	}
	return encode(h.event())
}

// attack is an event, garbage with its message id that comes before it, and
// events of other services and stages with its key that come after it.
func (h *history) attack() []item {
	e := h.fresh()
	e.IdempotencyKey = fmt.Sprint("attacked-", h.serial)
	h.made = append(h.made, e)
	real := encode(e)
	garbage := item{body: fmt.Sprint("garbage ", h.serial), subject: real.subject, msgID: real.msgID, turn: stockFirst}
	other, later := e, e
	other.ServiceName = "a service that takes keys"
	later.Stage = stageNames()[(slices.Index(stageNames(), e.Stage)+1)%5]
	items := []item{garbage, real}
	for i, e := range []event.Event{other, later} {
		e.TraceID = fmt.Sprint("taker-", h.serial, "-", i)
		it := encode(e)
		it.msgID, it.turn = e.TraceID, stockLast
		items = append(items, it)
	}
	return items
}

// event is a new one, or one that has been sent before.
func (h *history) event() event.Event {
	back := 0
	switch n := h.random.IntN(100); {
	case n < 8: // a retry, mostly within the broker's window
		back = 1 + h.random.IntN(2*h.perTick)
	case n < 18: // a replay from beyond it
		back = 1 + h.random.IntN(len(h.made)+1)
	}
	if at := len(h.made) - back; back > 0 && at >= 0 {
		return h.again(h.made[at])
	}
	e := h.fresh()
	if h.pool > 0 && len(h.made) >= madeLimit {
		h.made = append(h.made[:0], h.made[madeLimit/2:]...)
	}
	h.made = append(h.made, e)
	return e
}

// again is the same event, now and then in other words.
func (h *history) again(e event.Event) event.Event {
	if e.IdempotencyKey != "" && h.random.IntN(2) == 0 {
		e.TraceID = fmt.Sprint("attempt-", h.random.IntN(1000))
	}
	return e
}

func (h *history) fresh() event.Event {
	h.serial++
	n := h.article()
	e := event.Event{
		ArticleURL: fmt.Sprintf("https://%c.example.com/%d", 'a'+rune(n%7), n),
		SourceName: sourceNames()[h.random.IntN(len(sourceNames()))], OccurredAt: h.moment(),
		Metadata: map[string]any{},
	}
	if n%11 == 0 {
		e.ArticleURL = fmt.Sprintf("HTTP://WWW.Example.com:8080/%d?a=<b>&c", n)
	}
	if known := len(h.made); known > 0 && h.random.IntN(3) > 0 { // an article that is known goes on, in no order
		before := h.made[known-1-h.random.IntN(min(known, 500))]
		e.ArticleURL, e.SourceName, e.CanonicalURL = before.ArticleURL, before.SourceName, before.CanonicalURL
	} else if h.random.IntN(10) == 0 {
		e.CanonicalURL = fmt.Sprintf("https://example.org/%d", h.random.IntN(n))
	}
	e.Stage = stageNames()[h.random.IntN(len(stageNames()))]
	e.ServiceName, e.MetadataSchemaVersion = serviceOf(e.Stage), uint16(h.random.IntN(3))
	h.describe(e.Stage, e.Metadata)
	h.decorate(&e)
	h.onAnotherChannel(&e)
	return e
}

// onAnotherChannel makes an event, now and then, of the article and the moment of
// one that was published on another channel, or on none.
func (h *history) onAnotherChannel(e *event.Event) {
	if e.Stage != "published" || e.IdempotencyKey != "" {
		return
	}
	if last := h.published; last != nil && h.random.IntN(4) == 0 {
		*e = *last
		e.Metadata = maps.Clone(last.Metadata)
		e.Metadata["channel"] = fmt.Sprint("100%: channel ", h.serial)
	}
	h.published = e
}

func serviceOf(stage string) string { return "service of what is " + stage }

// describe says what a stage has to say; some of it is of a type that counts as
// absent. Scores are whole or half points, so that their sums are exact.
func (h *history) describe(stage string, metadata map[string]any) {
	some := func(values ...any) any { return values[h.random.IntN(len(values))] }
	switch stage {
	case "crawled":
		metadata["content_type"] = some("article", "vidéo", "")
		metadata["is_duplicate"] = some(true, false, false, "true", nil)
	case "classified":
		metadata["content_type"] = some("article", "listing", nil)
		metadata["model_version"] = some("v0", "v1", "v2", "v2.1-béta", "")
		metadata["topics"] = some([]any{}, []any{"crime"}, []any{"crime", "o'hara \"daily\""},
			[]any{"политика", "crime", "политика"}, nil)
		metadata["quality_score"] = some(nil, float64(h.random.IntN(201))/2, float64(h.random.IntN(100)))
	case "published":
		metadata["channel"] = some("articles:crime", "articles:日本", "", nil)
	}
}

// article is the number of the next one, from 1.
func (h *history) article() int {
	if h.pool > 0 {
		return 1 + h.serial%h.pool
	}
	return h.serial
}

// moment is mostly some seconds before the event is sent, so that events come
// in no order; now and then it is hours before.
func (h *history) moment() time.Time {
	now := h.begin.Add(time.Duration(h.ticks) * tick)
	if h.random.IntN(12) == 0 {
		return now.Add(-time.Hour - time.Duration(h.random.Int64N(int64(h.late))))
	}
	return now.Add(-time.Minute - time.Duration(h.random.Int64N(int64(time.Minute))))
}

func (h *history) decorate(e *event.Event) {
	switch h.random.IntN(20) {
	case 0:
		e.OccurredAt = h.begin.Add(-48*time.Hour - time.Duration(h.random.Int64N(int64(h.aged))))
		e.Metadata["backfilled"] = true
	case 1:
		e.Metadata["is_reclassification"], e.Metadata["model_version"] = true, fmt.Sprint("v", h.random.IntN(3))
	case 2, 3, 4:
		e.IdempotencyKey = fmt.Sprint("key-", h.serial)
	case 5:
		e.IdempotencyKey = "shared by articles, " + e.Stage
		// The key says that all of these are one event of the article, so they
		// have to say the same.
		e.SourceName, e.CanonicalURL, e.ArticleURL = "shared", "",
			fmt.Sprint("https://shared.example.com/", h.random.IntN(1000))
		e.OccurredAt, e.Metadata, e.MetadataSchemaVersion = h.begin.Add(-time.Hour), nil, 0
	}
}

func (h *history) invalid() item {
	h.serial++
	e := h.fresh()
	e.TraceID, e.IdempotencyKey = fmt.Sprint("invalid-", h.serial), ""
	it := encode(e)
	it.fact = nil
	switch h.random.IntN(5) {
	case 0:
		it.body = it.body[:len(it.body)-1]
	case 1:
		it.body = fmt.Sprintf(`{"article_url":"https://example.com/","stage":"crawled","trace_id":"invalid-%d"}`,
			h.serial)
	case 2:
		e.OccurredAt = h.begin.Add(-30*time.Hour - time.Duration(h.random.IntN(1e9))*time.Microsecond)
		e.Metadata = nil
		it = encode(e)
	case 3:
		e.OccurredAt = h.begin.Add(72*time.Hour + time.Duration(h.random.IntN(1e9))*time.Microsecond)
		it = encode(e)
	case 4:
		e.Stage = "printed"
		it.body = encode(e).body
	}
	return it
}

// encode states the contract's rules anew, to be compared with the program's.
func encode(e event.Event) item {
	body, err := json.Marshal(e)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	f := &fact{stage: e.Stage, service: e.ServiceName, source: e.SourceName, article: e.ArticleURL}
	if e.CanonicalURL != "" {
		f.article = e.CanonicalURL
	}
	f.hash = sha256.Sum256([]byte(f.article))
	hash := hex.EncodeToString(f.hash[:])
	key := e.IdempotencyKey
	if key == "" {
		key = e.ServiceName + ":" + e.Stage + ":" + hash[:8] + ":"
		if e.Metadata["is_reclassification"] == true {
			key += fmt.Sprint(e.Metadata["model_version"], ":")
		}
		if channel, ok := e.Metadata["channel"].(string); ok && channel != "" {
			key += strings.NewReplacer("%", "%25", ":", "%3A").Replace(channel) + "@"
		}
		key += e.OccurredAt.Format(time.RFC3339Nano)
	}
	f.msgID = key + "/" + hash
	id := sha256.Sum256([]byte(f.msgID))
	f.id = string(id[:16])
	at := e.OccurredAt.Unix()
	f.quarter = at - at%900
	f.at, f.aged = e.OccurredAt.UnixNano(), e.Metadata["backfilled"] == true
	return item{body: string(body), fact: f, subject: "events." + e.Stage + "." + hash[:2], msgID: f.msgID}
}

func stageNames() []string {
	return []string{"crawled", "indexed", "classified", "routed", "published"}
}
