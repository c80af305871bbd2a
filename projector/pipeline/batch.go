package pipeline

import (
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/deadletter"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/pipeline/funnel"
	"github.com/millrace-io/millrace/projector/pipeline/store"
	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// batch is the effects of the messages of the stream sequences (From, To].
type batch struct {
	store.Insert
	*draft    // nil once it is sealed
	rows      *schema.EventBlock
	funnel    *schema.FunnelBlock
	letters   []deadletter.Letter
	conflicts []conflict
	refused   int            // bytes of the letters' messages
	known     checkpoint.Sum // of all identities counted up to To

	parts      [][]byte // of the announcement
	byStage    []int    // events, by place of the stage
	cached     int      // bytes of funnel rows in memory
	messages   int
	duplicates int
	late       lateness
	last       fold.Message
}

func newBatch() *batch { return &batch{rows: schema.NewEventBlock(), funnel: schema.NewFunnelBlock()} }

// draft is what a batch needs of its events until it is sealed.
type draft struct {
	sightings []keystore.Sighting // of the rows
	groups    grouping
}

func newDraft(stages []string) *draft { return &draft{groups: newGrouping(stages)} }

func (d *draft) reset() {
	d.sightings = d.sightings[:0]
	d.groups.reset()
}

// large tells whether the draft has memory that only a backlog needs.
func (d *draft) large() bool { return cap(d.sightings) > 4*many }

// many is how many messages that wait behind a batch are a backlog. Batches that
// have room for a few times as many events are large.
const many = 4096

// backlog tells whether a backlog waited behind the batch's last message.
func (b *batch) backlog() bool { return b.last.Pending >= many }

// large tells whether the batch has memory that only a backlog needs.
func (b *batch) large() bool { return b.rows.Room() > 4*many }

// grow makes room for a batch of a backlog at once, in place of step by step.
func (b *batch) grow(rows int) {
	b.rows.Grow(rows - b.rows.Rows())
	b.sightings = slices.Grow(b.sightings, rows-len(b.sightings))
	b.groups.entries = slices.Grow(b.groups.entries, rows-len(b.groups.entries))
}

func (b *batch) reset() {
	b.Insert = store.Insert{}
	b.rows.Reset()
	b.funnel.Reset()
	b.letters, b.conflicts, b.refused, b.known = nil, nil, 0, checkpoint.Sum{}
	b.parts, b.byStage, b.cached, b.messages, b.duplicates = nil, nil, 0, 0, 0
	b.late, b.last = lateness{}, fold.Message{}
}

// append adds a valid event, for as long as it is not known to be repeated.
func (b *batch) append(m fold.Message, r *event.Record, stage int) {
	id := r.Identity()
	b.rows.Append(m.Seq, m.Time, r, id)
	b.sightings = append(b.sightings, see(id, r.Fingerprint(), m.Seq))
	b.groups.add(stage, r)
	if received := time.Unix(0, m.Time); r.Late(received) {
		b.late.merge(lateness{events: 1, stage: b.groups.stages[stage], delay: received.Sub(r.Time())})
	}
}

// bytes is what the batch takes of memory, about.
func (b *batch) bytes() int { return b.rows.Bytes() + b.refused }

// lateness sums up events that arrived long after they happened.
type lateness struct {
	events int
	stage  string // of the latest
	delay  time.Duration
}

func (l *lateness) merge(o lateness) {
	l.events += o.events
	if o.delay > l.delay {
		l.stage, l.delay = o.stage, o.delay
	}
}

// drop takes repeated events, and those in conflict with others, out again.
func (b *batch) drop(repeats []keystore.Repeat) {
	repeated := make([]int32, len(repeats))
	for i, r := range repeats {
		repeated[i] = r.Row
		if r.Conflict {
			row := int(r.Row)
			b.conflicts = append(b.conflicts, conflict{
				seq: b.rows.Seq(row), first: r.First, received: b.rows.Received(row),
				subject: stream.EventSubject(b.rows.Article(row)),
			})
		}
	}
	b.duplicates = len(repeats) - len(b.conflicts)
	switch len(repeated) {
	case 0:
		return
	case b.rows.Rows():
		b.rows.Reset()
		b.groups.entries = b.groups.entries[:0]
		return
	}
	slices.Sort(repeated)
	keep := func(row int) bool {
		_, found := slices.BinarySearch(repeated, int32(row))
		return !found
	}
	b.rows = b.rows.Select(keep)
	kept := b.groups.entries[:0]
	for i, e := range b.groups.entries {
		if keep(i) {
			kept = append(kept, e)
		}
	}
	b.groups.entries = kept
}

// grouping keeps a batch's events as the funnel sees them, in the form in
// which they are announced, and sorts them by quarter, stage and source.
type grouping struct {
	stages   []string
	sources  []string
	places   map[string]uint32 // of sources
	last     uint32            // place of the source of the event before
	entries  []contract.Entry
	quarters map[uint32]struct{}
	index    map[groupKey]int
	groups   []funnel.Group
	byStage  []int // events, by place of the stage
}

type groupKey struct {
	quarter uint32
	stage   uint16
	source  uint32
}

func newGrouping(stages []string) grouping {
	return grouping{
		stages: stages, places: map[string]uint32{}, quarters: map[uint32]struct{}{},
		index: map[groupKey]int{}, byStage: make([]int, len(stages)),
	}
}

func (g *grouping) reset() {
	g.sources, g.entries, g.groups = g.sources[:0], g.entries[:0], g.groups[:0]
	clear(g.places)
	clear(g.quarters)
	clear(g.index)
	clear(g.byStage)
}

func (g *grouping) add(stage int, r *event.Record) {
	quarter := uint32(contract.Quarter.Floor(r.OccurredAt / 1e9))
	if n := len(g.entries); n == 0 || g.entries[n-1].Quarter != quarter {
		g.quarters[quarter] = struct{}{}
	}
	g.entries = append(g.entries, contract.Entry{
		Quarter: quarter, Stage: uint16(stage), Source: g.place(r.SourceName), Article: r.ArticleID(),
	})
}

// sort fills groups from entries.
func (g *grouping) sort() {
	for _, e := range g.entries {
		key := groupKey{e.Quarter, e.Stage, e.Source}
		i, ok := g.index[key]
		if !ok {
			i = len(g.groups)
			g.index[key] = i
			g.grow()
			g.groups[i].Quarter, g.groups[i].Stage, g.groups[i].Source = e.Quarter, g.stages[e.Stage],
				g.sources[e.Source]
		}
		g.groups[i].Articles = append(g.groups[i].Articles, e.Article)
		g.byStage[e.Stage]++
	}
}

// grow adds an empty group, with the memory of one of an earlier batch.
func (g *grouping) grow() {
	if n := len(g.groups); n < cap(g.groups) {
		g.groups = g.groups[:n+1]
		g.groups[n].Articles = g.groups[n].Articles[:0]
		return
	}
	g.groups = append(g.groups, funnel.Group{})
}

func (g *grouping) place(name []byte) uint32 {
	if len(g.sources) > 0 && g.sources[g.last] == string(name) {
		return g.last
	}
	place, ok := g.places[string(name)]
	if !ok {
		place = uint32(len(g.sources))
		source := string(name)
		g.sources = append(g.sources, source)
		g.places[source] = place
	}
	g.last = place
	return place
}

// announcement is what readers are told of the batch, in as many messages as it
// takes, and its digest.
func (b *batch) announcement() (parts [][]byte, digest string) {
	deltas := b.deltas()
	sums := make([]contract.Sum, len(deltas))
	for i := range deltas {
		parts = append(parts, deltas[i].AppendBinary(nil))
		sums[i] = contract.SumOf(parts[i])
	}
	return parts, contract.Digest(sums)
}

// deltas returns the announcement of the batch, in as many parts as it takes.
func (b *batch) deltas() []contract.Delta {
	g := &b.groups
	whole := contract.Delta{
		Group: b.Group.ID, From: b.From, To: b.To, Stages: g.stages, Sources: g.sources, Entries: g.entries,
	}
	return whole.Split()
}
