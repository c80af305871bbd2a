// Package funnel folds events into the rows of the funnel view. It holds the
// rows that events are being added to in memory, and reads those that were put
// out of it back from the database.
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
	dirty    bool   // changed by the batch being folded
}

// Database is where rows come from when they are not in memory.
type Database interface {
	// Buckets calls add for every bucket that has rows.
	Buckets(ctx context.Context, add func(contract.Width, uint32)) error
	// Rows calls add for every row of the buckets, which it then owns.
	Rows(ctx context.Context, width contract.Width, buckets []uint32, add func(contract.Key, Row)) error
}

// Sink takes the whole state of a changed row. It must not keep the set.
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
	dirty []dirtyRow
}

type pageKey struct {
	width  contract.Width
	bucket uint32
}

// page holds all rows of a bucket.
type page struct {
	rows  map[rowKey]*Row
	bytes int
	used  time.Time
	seq   uint64 // end of the last batch that changed it
}

type rowKey struct{ source, stage string }

type dirtyRow struct {
	key  contract.Key
	page *page
	row  *Row
	size int // before the change
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
			v.pages[k] = &page{rows: map[rowKey]*Row{}, used: v.now}
			if _, ok := v.known[k]; ok {
				missing[k.width] = append(missing[k.width], k.bucket)
			}
			v.known[k] = struct{}{}
		})
	}
	for width, buckets := range missing {
		err := v.db.Rows(ctx, width, buckets, func(key contract.Key, r Row) {
			p := v.pages[pageKey{key.Width, key.Bucket}]
			p.rows[rowKey{key.Source, key.Stage}] = &r
			p.bytes += r.Articles.Size()
			v.bytes += r.Articles.Size()
		})
		if err != nil {
			return fmt.Errorf("load funnel rows: %w", err)
		}
	}
	return nil
}

func (v *View) add(g *Group, seq uint64) {
	pagesOf(g.Quarter, func(k pageKey) {
		p := v.pages[k]
		for _, source := range [...]string{contract.AllSources, g.Source} {
			v.addTo(p, k, rowKey{source, g.Stage}, g.Articles, seq)
		}
	})
}

func (v *View) addTo(p *page, at pageKey, key rowKey, articles []uint64, seq uint64) {
	r := p.rows[key]
	if r == nil {
		r = new(Row)
		p.rows[key] = r
	}
	if r.Seq >= seq && !r.dirty { // the batch is in it already
		return
	}
	if !r.dirty {
		r.dirty = true
		size := 0
		if r.Seq > 0 {
			size = r.Articles.Size()
		}
		v.dirty = append(v.dirty, dirtyRow{
			key:  contract.Key{Width: at.width, Bucket: at.bucket, Source: key.source, Stage: key.stage},
			page: p, row: r, size: size,
		})
	}
	r.Events += uint64(len(articles))
	for _, id := range articles {
		r.Articles.Insert(id)
	}
}

func (v *View) flush(d dirtyRow, seq uint64, sink Sink) error {
	d.row.dirty, d.row.Seq, d.page.seq = false, seq, seq
	if err := sink(d.key, d.row.Events, &d.row.Articles, seq); err != nil {
		return fmt.Errorf("write funnel row %+v: %w", d.key, err)
	}
	grown := d.row.Articles.Size() - d.size
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
