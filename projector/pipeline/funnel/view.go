// Package funnel folds events into the rows of the funnel view. It holds the
// rows that events are being added to in memory, and reads those that were put
// out of it back from the database.
//
// A row whose set is a sketch takes kilobytes, and a batch that adds one article to
// it would write all of it again. So such a row stays as it was written, and what
// comes after it is in a second row of its key, the recent one, while that is an exact
// set; then the first takes it up. Which row has what depends on the events up to the
// end of a batch alone, so that whoever folds the batch again writes the same. Both
// rows of a key are in one bucket, thus in one partition, and land together or not at
// all.
package funnel

import (
	"context"
	"fmt"
	"slices"
	"time"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// Row is the state of a row.
type Row struct {
	Events   uint64
	Articles contract.Set
	Seq      uint64 // folded up to
}

// cell is the rows of a bucket, a source and a stage. They add up.
type cell struct {
	whole, recent Row
	into          *Row // what the batch being folded is added to; nil: it adds nothing
}

func (c *cell) size() (bytes int) {
	for _, r := range [...]*Row{&c.whole, &c.recent} {
		if r.Seq > 0 {
			bytes += r.Articles.Size()
		}
	}
	return bytes
}

// add adds articles, of which each is an event.
func (c *cell) add(articles []uint64) {
	for _, id := range articles {
		if c.into == &c.recent && !c.recent.Articles.InsertExact(id) {
			c.takeUp()
		}
		if c.into == &c.whole {
			c.whole.Articles.Insert(id)
		}
	}
	c.into.Events += uint64(len(articles))
}

// takeUp adds the recent row to the whole one, and what follows as well.
func (c *cell) takeUp() {
	if err := c.whole.Articles.Merge(&c.recent.Articles); err != nil {
		panic("funnel: an exact set does not merge: " + err.Error())
	}
	c.whole.Events += c.recent.Events
	c.recent = Row{Seq: c.recent.Seq}
	c.into = &c.whole
}

// Database is where rows come from when they are not in memory.
type Database interface {
	// Buckets calls add for every bucket that has rows.
	Buckets(ctx context.Context, add func(contract.Width, uint32)) error
	// Rows calls add for every row of the buckets, which it then owns.
	Rows(ctx context.Context, width contract.Width, buckets []uint32, add func(contract.Key, Row)) error
}

// Sink takes the state of a changed row. It must not keep the set.
type Sink func(key contract.Key, events uint64, articles *contract.Set, seq uint64) error

// Config of a View. The zero value of a field stands for its default.
type Config struct {
	CacheBytes int // of rows in memory; default 48 MiB
	// IdleAfter is how long a bucket that gets no events stays in memory;
	// default 15 min.
	IdleAfter time.Duration
	Now       func() time.Time // default time.Now
}

// View is the funnel of one slot group. It is not safe for concurrent use.
type View struct {
	cfg   Config
	db    Database
	pages map[pageKey]*page
	known map[pageKey]struct{} // buckets that have rows in the database
	bytes int
	now   time.Time // when the batch came that is being folded
	swept time.Time
	dirty []change
}

type pageKey struct {
	width  contract.Width
	bucket uint32
}

// page holds all rows of a bucket.
type page struct {
	cells map[cellKey]*cell
	bytes int
	used  time.Time
	seq   uint64 // end of the last batch that changed it
}

type cellKey struct{ source, stage string }

// change is a cell that the batch being folded adds to.
type change struct {
	key    contract.Key
	page   *page
	cell   *cell
	size   int  // before
	recent bool // the recent row had something before
}

// Open reads which buckets there are.
func Open(ctx context.Context, cfg Config, db Database) (*View, error) {
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = 48 << 20
	}
	if cfg.IdleAfter == 0 {
		cfg.IdleAfter = 15 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	v := &View{cfg: cfg, db: db, pages: map[pageKey]*page{}, known: map[pageKey]struct{}{}}
	err := db.Buckets(ctx, func(width contract.Width, bucket uint32) { v.known[pageKey{width, bucket}] = struct{}{} })
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Group is a run of a batch's events with one quarter, source and stage.
type Group struct {
	Quarter  uint32 // start, Unix seconds
	Source   string
	Stage    string
	Articles []uint64
}

// Fold adds the events of the batch that ends at seq and hands every changed
// row to sink. Rows that have the batch already are left alone, so folding it
// again after a crash changes nothing. durable is the sequence up to which
// rows are known to be in the database: what has changed since stays in
// memory.
func (v *View) Fold(ctx context.Context, groups []Group, seq, durable uint64, sink Sink) error {
	v.now = v.cfg.Now()
	v.dirty = v.dirty[:0]
	if err := v.load(ctx, groups); err != nil {
		return err
	}
	for i := range groups {
		v.add(&groups[i], seq)
	}
	for _, d := range v.dirty {
		if err := v.flush(d, seq, sink); err != nil {
			return err
		}
	}
	v.evict(durable)
	return nil
}

// pagesOf calls do for the bucket of each width that holds a quarter.
func pagesOf(quarter uint32, do func(pageKey)) {
	for _, w := range contract.Widths {
		do(pageKey{w, uint32(w.Floor(int64(quarter)))})
	}
}

// load brings the pages that the groups need into memory.
func (v *View) load(ctx context.Context, groups []Group) error {
	missing := map[contract.Width][]uint32{}
	for i := range groups {
		pagesOf(groups[i].Quarter, func(k pageKey) {
			if p := v.pages[k]; p != nil {
				p.used = v.now
				return
			}
			v.pages[k] = &page{cells: map[cellKey]*cell{}, used: v.now}
			if _, ok := v.known[k]; ok {
				missing[k.width] = append(missing[k.width], k.bucket)
			}
			v.known[k] = struct{}{}
		})
	}
	for width, buckets := range missing {
		err := v.db.Rows(ctx, width, buckets, func(key contract.Key, r Row) {
			p := v.pages[pageKey{key.Width, key.Bucket}]
			c := p.cell(cellKey{key.Source, key.Stage})
			if key.Recent {
				c.recent = r
			} else {
				c.whole = r
			}
			p.bytes += r.Articles.Size()
			v.bytes += r.Articles.Size()
		})
		if err != nil {
			return fmt.Errorf("load funnel rows: %w", err)
		}
	}
	return nil
}

func (p *page) cell(key cellKey) *cell {
	c := p.cells[key]
	if c == nil {
		c = new(cell)
		p.cells[key] = c
	}
	return c
}

func (v *View) add(g *Group, seq uint64) {
	pagesOf(g.Quarter, func(k pageKey) {
		p := v.pages[k]
		for _, source := range [...]string{contract.AllSources, g.Source} {
			v.addTo(p, k, cellKey{source, g.Stage}, g.Articles, seq)
		}
	})
}

func (v *View) addTo(p *page, at pageKey, key cellKey, articles []uint64, seq uint64) {
	c := p.cell(key)
	if c.into == nil {
		if max(c.whole.Seq, c.recent.Seq) >= seq { // the batch is in it already
			return
		}
		v.dirty = append(v.dirty, change{
			key:  contract.Key{Width: at.width, Bucket: at.bucket, Source: key.source, Stage: key.stage},
			page: p, cell: c, size: c.size(), recent: c.recent.Events > 0,
		})
		if c.into = &c.recent; c.whole.Articles.Exact() {
			c.into = &c.whole
		}
	}
	c.add(articles)
}

func (v *View) flush(d change, seq uint64, sink Sink) error {
	write := func(r *Row, recent bool) error {
		key := d.key
		key.Recent, r.Seq = recent, seq
		if err := sink(key, r.Events, &r.Articles, seq); err != nil {
			return fmt.Errorf("write funnel row %+v: %w", key, err)
		}
		return nil
	}
	c := d.cell
	into := c.into
	c.into, d.page.seq = nil, seq
	if into == &c.whole {
		if err := write(&c.whole, false); err != nil {
			return err
		}
	}
	if into == &c.recent || d.recent { // which the whole one has taken up
		if err := write(&c.recent, true); err != nil {
			return err
		}
	}
	grown := c.size() - d.size
	d.page.bytes += grown
	v.bytes += grown
	return nil
}

// sweepEvery is how often idle pages are looked for.
const sweepEvery = time.Minute

// evict puts pages out of memory: those that have been idle for long, and when
// there is too much in it the least recently used, down to three quarters of the
// limit.
func (v *View) evict(durable uint64) {
	room := v.cfg.CacheBytes
	if v.bytes > room {
		room = room / 4 * 3
	} else if v.now.Sub(v.swept) < sweepEvery {
		return
	}
	v.swept = v.now
	var unused []pageKey
	for k, p := range v.pages {
		if p.seq <= durable && p.used.Before(v.now) {
			unused = append(unused, k)
		}
	}
	slices.SortFunc(unused, func(a, b pageKey) int { return v.pages[a].used.Compare(v.pages[b].used) })
	for _, k := range unused {
		p := v.pages[k]
		if v.bytes <= room && v.now.Sub(p.used) < v.cfg.IdleAfter {
			return
		}
		v.bytes -= p.bytes
		delete(v.pages, k)
	}
}

// Bytes returns about how much memory the rows take.
func (v *View) Bytes() int { return v.bytes }
