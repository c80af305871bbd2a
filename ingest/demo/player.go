package demo

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/ingest/demo/internal/sample"
	"github.com/millrace-io/millrace/schemas/event"
)

const (
	warmUpEvents = 4000
	warmUpSpan   = 6 * time.Hour
	// newModelFor is how long the model has its new version when the replay begins.
	newModelFor = 2 * time.Hour
	// A source is silent from silentSince to silentUntil before the replay begins.
	silentSince = 4 * time.Hour
	silentUntil = 135 * time.Minute
	// maxPoll cuts the sightings of a poll, up to 100 in the history and more
	// in its first hours, into handfuls that make the page move all the time.
	maxPoll = 10
	// maxLag is the delay from which the replay has been held up, and goes on
	// from the present instead of making up for it.
	maxLag = 2 * time.Second
	// maxBatch is the size of an atomic batch.
	maxBatch = 1000
)

// player turns sightings into events that become due as time passes. It holds
// those of the last few seconds' sightings, or of the warm-up.
type player struct {
	sample *sample.Sample
	rules  rules
	pace   float64
	rng    *rand.Rand

	edition string // tells the articles of this replay from those of others
	cursor  int    // the next sighting
	polls   int
	met     []bool    // by article, since the start
	next    time.Time // of the next poll
	queue   timeline
	// past is the time before which events were made by the warm-up, and newModel the
	// one since which the model has a new version.
	past, newModel time.Time
	// silent is a source that has no sightings within [since, until); empty: none.
	silent       string
	since, until time.Time
}

func newPlayer(cfg Config, s *sample.Sample) *player {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0))
	return &player{
		sample: s, rules: rulesFor(cfg.Stages), pace: cfg.Pace, rng: rng,
		edition: strconv.FormatInt(time.Now().Unix(), 36),
		cursor:  rng.IntN(len(s.Sightings)), met: make([]bool, len(s.Articles)),
	}
}

// warmUp makes the events of the hours before now, denser towards now. Times
// keep their monotonic reading throughout, so a clock that is set meanwhile
// does not disturb the order.
func (p *player) warmUp(now time.Time) {
	p.past, p.newModel = now, now.Add(-newModelFor)
	p.silent, p.since, p.until = busiest(p.sample), now.Add(-silentSince), now.Add(-silentUntil)
	p.skipTo(p.silent) // there are stretches without it, in which its silence would not show
	for made := 0; made < warmUpEvents; made = p.queue.Len() {
		left := 1 - float64(made)/warmUpEvents
		p.poll(now.Add(-time.Duration(math.Pow(left, 1.5) * float64(warmUpSpan))))
	}
}

// busiest is the source that is seen most often; empty where there is no other.
func busiest(s *sample.Sample) (name string) {
	seen := map[string]int{}
	for _, sighting := range s.Sightings {
		seen[s.Articles[sighting.Article].Source]++
	}
	if len(seen) < 2 {
		return ""
	}
	for source, n := range seen {
		if n > seen[name] || n == seen[name] && source < name {
			name = source
		}
	}
	return name
}

// begin sets the start of the replay.
func (p *player) begin(now time.Time) { p.next = now }

// advance makes the events of the sightings up to now.
func (p *player) advance(now time.Time) {
	if lag := now.Sub(p.nextDue()); lag > maxLag {
		p.next = p.next.Add(lag)
		for i := range p.queue {
			p.queue[i].at = p.queue[i].at.Add(lag)
		}
	}
	for !p.next.After(now) {
		p.next = p.next.Add(p.poll(p.next))
	}
}

// nextDue is when there is something to do again.
func (p *player) nextDue() time.Time {
	if len(p.queue) > 0 && p.queue[0].at.Before(p.next) {
		return p.queue[0].at
	}
	return p.next
}

// due takes out the events up to now, in time order, at most a batch.
func (p *player) due(now time.Time) []event.Event {
	var events []event.Event
	for len(events) < maxBatch && len(p.queue) > 0 && !p.queue[0].at.After(now) {
		item := heap.Pop(&p.queue).(pending)
		// Counted from now by the monotonic clock, and so never in the future.
		item.event.OccurredAt = now.Add(-now.Sub(item.at)).UTC().Truncate(time.Microsecond)
		if item.at.Before(p.past) {
			item.event.Metadata["backfilled"] = true
		}
		events = append(events, item.event)
	}
	return events
}

// poll replays the sightings of a poll of feeds at a time, and returns how
// long after it the next poll is due. That is in proportion to the events that
// come of it, which keeps the pace whatever the rules make of an article.
func (p *player) poll(at time.Time) time.Duration {
	var sightings [][]step
	events := 0
	for len(sightings) < maxPoll {
		sightings = append(sightings, p.sighting(at))
		events += len(sightings[len(sightings)-1])
		if p.sample.Sightings[p.cursor].After > 0 {
			break
		}
	}
	gap := time.Duration(float64(events) / p.pace * p.variation() * float64(time.Second))
	// The sightings fill the first part of the gap; then comes a breath.
	apart := gap * 3 / 5 / time.Duration(len(sightings))
	for i, steps := range sightings {
		for _, s := range steps {
			heap.Push(&p.queue, pending{at.Add(time.Duration(i)*apart + s.after), s.event})
		}
	}
	return gap
}

// variation is 1 on average: some polls come thick and others late, and over
// some 40 polls it gets busier and calmer.
func (p *player) variation() float64 {
	p.polls++
	return (0.4 + 0.6*min(p.rng.ExpFloat64(), 4)) * (1 + 0.35*math.Sin(2*math.Pi*float64(p.polls)/40))
}

// sighting replays the next sighting, from the sample's end on to its begin.
// Whether an article is new is seen from this replay, which may begin in the
// middle of the sample.
func (p *player) sighting(at time.Time) []step {
	for p.isSilent(p.source(), at) {
		p.skip()
	}
	s := p.sample.Sightings[p.cursor]
	v := visit{article: &p.sample.Articles[s.Article], number: s.Article, edition: p.edition, later: at.After(p.newModel)}
	switch {
	case !p.met[s.Article]:
		v.kind = newArticle
	case s.Kind == sample.First:
		v.kind = nextRound
	default:
		v.kind = repeated
	}
	p.met[s.Article] = true
	p.skip()
	return p.rules(v)
}

// skipTo goes on to the next sighting of a source; of an unknown one, to the same.
func (p *player) skipTo(source string) {
	for range p.sample.Sightings {
		if p.source() == source {
			return
		}
		p.skip()
	}
}

// source is that of the next sighting.
func (p *player) source() string {
	return p.sample.Articles[p.sample.Sightings[p.cursor].Article].Source
}

// skip goes on to the sighting after the next.
func (p *player) skip() { p.cursor = (p.cursor + 1) % len(p.sample.Sightings) }

func (p *player) isSilent(source string, at time.Time) bool {
	return source == p.silent && source != "" && !at.Before(p.since) && at.Before(p.until)
}

type pending struct {
	at    time.Time
	event event.Event
}

// timeline is a heap.
type timeline []pending

func (q timeline) Len() int           { return len(q) }
func (q timeline) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q timeline) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *timeline) Push(x any)        { *q = append(*q, x.(pending)) }
func (q *timeline) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = pending{} // lets go of the event
	*q = (*q)[:last]
	return x
}
