package clickhouse

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
)

// The engine is asked about running statements, and told to end them, for all of
// them at one time: a statement of its own for each would have those that were
// cancelled wait for one another.

// tagNumber is the number in the tag that a running statement ends or begins with, or 0.
const tagNumber = `toUInt64OrZero(coalesce(nullIf(extract(query, '\\n/[*]q([0-9]+)(?: [^ *]+)?[*]/$'), ''), ` +
	`extract(query, '^/[*]q([0-9]+)[ *]')))`

// whichOf is the place in tags of the tag that a running statement has, or 0. It goes by
// their numbers: what clients have named their statements can be long, and a text that is
// too long for the engine would end none of them.
func whichOf(tags []string) string {
	numbers := make([]string, len(tags))
	for i, tag := range tags {
		numbers[i], _, _ = strings.Cut(strings.TrimSuffix(strings.TrimPrefix(tag, "/*q"), "*/"), " ")
	}
	return "indexOf([" + strings.Join(numbers, ", ") + "]::Array(UInt64), " + tagNumber + ")"
}

// killer cancels statements again and again until they have ended: one may not have
// begun to run when it is cancelled. It is safe for concurrent use.
type killer struct {
	kill func(tags []string)

	mu   sync.Mutex
	tags map[string]struct{}
	more chan struct{} // has a token when tags has grown; nil when no goroutine cancels
}

// killSoon is how long a statement has to end before it is cancelled for the second
// time. It has twice as long before each next time, up to a second.
const killSoon = 20 * time.Millisecond

func (k *killer) add(tag string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.more == nil {
		k.tags, k.more = map[string]struct{}{tag: {}}, make(chan struct{}, 1)
		go k.run(k.more)
		return
	}
	k.tags[tag] = struct{}{}
	select {
	case k.more <- struct{}{}:
	default:
	}
}

func (k *killer) remove(tag string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.tags, tag)
}

func (k *killer) run(more <-chan struct{}) {
	wait := killSoon
	for {
		tags := k.left()
		if tags == nil {
			return
		}
		k.kill(tags)
		select {
		case <-more:
			wait = killSoon
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		}
	}
}

// left returns what has not ended. When nothing is left, the caller is to end.
func (k *killer) left() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.tags) == 0 {
		k.more = nil
		return nil
	}
	return slices.Collect(maps.Keys(k.tags))
}

// killWhenDone cancels the query that has tag once ctx is done, until stop is called.
func (e *engine) killWhenDone(ctx context.Context, tag string) (stop func()) {
	added := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		e.killer.add(tag)
		close(added)
	})
	return func() {
		if !unregister() {
			<-added
			e.killer.remove(tag)
		}
	}
}

func (e *engine) kill(tags []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.control != nil {
		_ = e.control.Exec("KILL QUERY WHERE " + whichOf(tags) + " > 0")
	}
}

// watched are statements whose progress is asked for. It is safe for concurrent use.
type watched struct {
	looking sync.Mutex // held by who asks the engine
	at      time.Time  // of the last look; looking guards it

	mu  sync.Mutex
	all map[string]*chdb.Chunk // by tag: what they had done then; nil when they did not run
}

// lookEvery is how old the answer to somebody who asks may be.
const lookEvery = nativeProgress / 2

func (w *watched) add(tag string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[string]*chdb.Chunk{}
	}
	w.all[tag] = nil
}

func (w *watched) remove(tag string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, tag)
}

func (w *watched) tags() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.all))
}

// note notes what a look at statements has found.
func (w *watched) note(tags []string, now map[string]*chdb.Chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tag := range tags {
		if _, still := w.all[tag]; still {
			w.all[tag] = now[tag]
		}
	}
}

func (w *watched) get(tag string) (all chdb.Chunk, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.all[tag]; c != nil {
		return *c, true
	}
	return all, false
}

// running tells what a statement that is watched has done. Statements can begin and end
// while the engine is asked.
func (e *engine) running(tag string) (all chdb.Chunk, ok bool) {
	w := &e.watched
	w.looking.Lock()
	defer w.looking.Unlock()
	if time.Since(w.at) >= lookEvery {
		tags := w.tags()
		w.note(tags, e.look(tags))
		w.at = time.Now()
	}
	return w.get(tag)
}

// look asks the engine what statements have done.
func (e *engine) look(tags []string) map[string]*chdb.Chunk {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.control == nil {
		return nil
	}
	rows, err := e.control.Query("SELECT "+whichOf(tags)+" AS which, read_rows, read_bytes, total_rows_approx, "+
		"written_rows, written_bytes, memory_usage FROM system.processes WHERE which > 0", "TSV")
	if err != nil {
		return nil
	}
	found := make(map[string]*chdb.Chunk, len(tags))
	for line := range strings.Lines(string(rows.Data)) {
		var which uint64
		c := &chdb.Chunk{}
		to := []*uint64{
			&which, &c.ReadRows, &c.ReadBytes, &c.TotalRows, &c.WrittenRows, &c.WrittenBytes, &c.Memory,
		}
		for i, field := range strings.Fields(line) {
			*to[i], _ = strconv.ParseUint(field, 10, 64) // memory can be below 0 for a moment
		}
		found[tags[which-1]] = c
	}
	return found
}
