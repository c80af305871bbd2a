package console

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"
)

const (
	followEvery = time.Second
	// lateness is for how much earlier an event may have occurred than the newest
	// that was printed, and still be printed when it comes.
	lateness = time.Minute
	// followPages bounds how many pages a look reads: who cannot read as fast as
	// events come is told that some were left out.
	followPages = 20
)

// followWidths are the least widths of the columns, in which most names have room.
// The first events may widen them; later cells that are wider are cut.
var followWidths = []int{24, 12, 24, 16}

// follower prints each event that comes once.
type follower struct {
	*EventsCmd
	out    *eventPrinter
	filter url.Values
	first  uint64               // events up to this sequence were there before
	from   time.Time            // events before are not looked for
	seen   map[uint64]time.Time // printed ones since from, by sequence, and when they occurred
}

// follow prints the newest events and then those that come, until the command
// is told to stop. While the server is away it waits.
func (c *EventsCmd) follow(con *Console, out *eventPrinter) error {
	f := follower{EventsCmd: c, out: out, filter: c.query(), seen: map[uint64]time.Time{}}
	if err := f.begin(con.Ctx); err != nil {
		return err
	}
	away := false
	for {
		select {
		case <-con.Ctx.Done():
			return nil // what it was asked for
		case <-time.After(followEvery):
		}
		left, err := f.look(con.Ctx)
		switch status := statusOf(err); {
		case con.Ctx.Err() != nil:
			return nil
		case status >= 400 && status < 500: // asking again gets the same
			return err
		case err != nil && !away:
			fmt.Fprintf(con.Err, "waiting: %s\n", Plain(err.Error()))
		case left:
			fmt.Fprintln(con.Err, "events come faster than they are read: some are left out")
		}
		away = err != nil
	}
}

// begin prints the newest events that are there.
func (f *follower) begin(ctx context.Context) error {
	var newest []storedEvent
	_, err := f.list(ctx, "/events", "events", f.filter, f.Limit, func(documents []json.RawMessage) (bool, error) {
		events, err := parseEvents(documents)
		newest = append(newest, events...)
		return true, err
	})
	if err != nil {
		return err
	}
	for _, e := range newest {
		f.first = max(f.first, e.Seq)
	}
	return f.print(newest)
}

// look prints what has come. It reads back to a page without anything new, and
// tells whether it has left something out.
func (f *follower) look(ctx context.Context) (left bool, err error) {
	filter := maps.Clone(f.filter)
	if !f.from.IsZero() {
		filter.Set("from", f.from.Format(time.RFC3339Nano))
	}
	var news []storedEvent
	goOn := false
	pick := func(documents []json.RawMessage) (bool, error) {
		events, err := parseEvents(documents)
		goOn = false
		for _, e := range events {
			if _, printed := f.seen[e.Seq]; !printed && e.Seq > f.first {
				news, goOn = append(news, e), true
			}
		}
		return goOn, err
	}
	left, err = f.list(ctx, "/events", "events", filter, followPages*maxPage, pick)
	if err != nil {
		return false, err
	}
	return left && goOn, f.print(news)
}

// print prints events, the oldest first, and forgets those that no look finds
// any more.
func (f *follower) print(events []storedEvent) error {
	slices.Reverse(events)
	for _, e := range events {
		f.seen[e.Seq] = e.OccurredAt
		if from := e.OccurredAt.Add(-lateness); from.After(f.from) {
			f.from = from.UTC()
		}
	}
	maps.DeleteFunc(f.seen, func(_ uint64, at time.Time) bool { return at.Before(f.from) })
	return f.out.print(events)
}
