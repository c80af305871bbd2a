package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// reply is what came of a request that was sent until it was answered.
type reply struct {
	status int  // 0: it was not, in the time there was
	sure   bool // it was sent once
	asked  time.Time
}

// insist sends a request until it is answered with something other than "try
// again".
func (c *crew) insist(ctx context.Context, path string, body, into any) reply {
	return c.demand(ctx, http.MethodPost, path, body, into)
}

// demand does so with any method.
func (c *crew) demand(ctx context.Context, method, path string, body, into any) (r reply) {
	for r.sure = true; ctx.Err() == nil; r.sure = false {
		r.asked = time.Now()
		status, err := c.send(ctx, method, path, body, into)
		if err == nil && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
			if r.status = status; status >= 500 {
				c.notes.fail("%s %s %v: status %d", method, path, body, status)
			}
			c.notes.answered(r.asked)
			return r
		}
		wait(ctx, 200*time.Millisecond)
	}
	return r
}

// send sends a request to the next of the processes that take some.
func (c *crew) send(ctx context.Context, method, path string, body, into any) (status int, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	addr := c.ingest[int(c.serial.Add(1))%len(c.ingest)]
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.web.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 == 2 && into != nil {
		err = json.Unmarshal(answer, into)
	}
	return resp.StatusCode, err
}

// get reads what the query process shows.
func (c *crew) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	return fetchInto(ctx, "http://"+c.query+"/api/v1"+path, into)
}

// takenItem is one that a worker has, or that stands in a queue.
type takenItem struct {
	ID         int64
	Filename   string
	Key        string
	Shard      int
	Generation int // 0: it was started by name
	Attempt    int // of items that have a number
	Payload    json.RawMessage
}

// taking is a piece that a worker has, since it asked for it at a moment.
type taking struct {
	piece
	worker     string
	generation int
	asked      time.Time
}

// poller takes items over HTTP, some by name, as daemons do that read the
// queues.
func (c *crew) poller(ctx context.Context, i int) error {
	random := rand.New(rand.NewPCG(c.seed, 10+uint64(i)))
	for ctx.Err() == nil {
		life, die := c.live(ctx)
		c.pollOnce(life, random, i)
		die()
	}
	return nil
}

func (c *crew) pollOnce(ctx context.Context, random *rand.Rand, i int) {
	queue := c.queues[random.IntN(len(c.queues))]
	worker := fmt.Sprintf("poller-%d-%d", i, c.serial.Add(1))
	asked := time.Now()
	var items []takenItem
	if !c.own && random.IntN(5) == 0 {
		items = c.startNamed(ctx, queue, worker)
	} else {
		items = c.take(ctx, queue, worker, 1+random.IntN(4))
	}
	var takings []taking
	for _, it := range items {
		t := taking{c.piece(queue, it), worker, it.Generation, asked}
		c.notes.took(t.piece, worker, asked, asked.Add(c.lease))
		takings = append(takings, t)
	}
	for _, t := range takings {
		if ctx.Err() == nil {
			c.answer(ctx, random, t)
		}
	}
	if len(items) == 0 {
		wait(ctx, time.Duration(50+random.IntN(150))*time.Millisecond)
	}
}

func (c *crew) take(ctx context.Context, queue, worker string, limit int) []takenItem {
	var taken struct{ Items []takenItem }
	asked := time.Now()
	status, err := c.send(ctx, http.MethodPost, c.base()+"/queues/"+queue+"/take",
		map[string]any{"worker": worker, "limit": limit, "lease_s": c.lease.Seconds()}, &taken)
	if err != nil || status != http.StatusOK {
		return nil // what was taken by it nobody has: the lease ends
	}
	c.notes.answered(asked)
	return taken.Items
}

// startNamed starts the first item that a page of the queue of a stage names.
func (c *crew) startNamed(ctx context.Context, stage, worker string) []takenItem {
	var page struct{ Items []takenItem }
	if c.get(ctx, "/pipeline/queues/"+stage+"?limit=3", &page) != nil || len(page.Items) == 0 {
		return nil
	}
	it := page.Items[len(page.Items)-1]
	status, err := c.send(ctx, http.MethodPost, "/pipeline/stages/"+stage+"/start", map[string]any{
		"filename": it.Filename, "shard": it.Shard, "worker": worker, "lease_s": c.lease.Seconds(),
	}, nil)
	if err != nil || status != http.StatusOK {
		return nil
	}
	return []takenItem{{Filename: it.Filename, Shard: it.Shard}}
}

// answer says what became of an item, at a whim: done, mostly.
func (c *crew) answer(ctx context.Context, random *rand.Rand, t taking) {
	whim := random.IntN(100)
	if c.honest.Load() {
		whim = 99
	}
	move, more := "done", map[string]any{}
	late := false
	switch {
	case c.doomed(t.piece):
		move, more["error"] = "fail", "poison"
	case whim < 4:
		return // gone without a word
	case whim < 8:
		late = true
	case whim < 12:
		move, more["error"] = "fail", "somebody has to mend it"
	case whim < 16:
		move, more["error"], more["delay_s"] = "again", "not now", random.Float64()
	case whim < 18:
		move = "release"
	case whim < 23:
		c.extend(ctx, t)
	case whim < 30:
		c.tell(ctx, t, move, more) // and again
	case whim < 40 && c.own: // it takes its time
		wait(ctx, time.Duration(random.IntN(2000))*time.Millisecond)
	}
	if late {
		after := c.lease + time.Duration(random.IntN(1500))*time.Millisecond
		go func() { // the run outlasts it, or it says nothing
			wait(ctx, after)
			c.tell(ctx, t, move, more)
		}()
		return
	}
	c.tell(ctx, t, move, more)
}

// extend moves the end of the lease. What it says of holding is not used: the
// first lease is the one that is sure.
func (c *crew) extend(ctx context.Context, t taking) {
	path, body := c.about(t, "extend", map[string]any{"lease_s": c.lease.Seconds()})
	c.insist(ctx, path, body, nil)
}

// tell says how an item goes on. Within the lease it is not refused, but when
// the clock has jumped.
func (c *crew) tell(ctx context.Context, t taking, move string, more map[string]any) {
	c.notes.leaves(t.piece, t.worker)
	path, body := c.about(t, move, more)
	r := c.insist(ctx, path, body, nil)
	switch {
	case r.status == http.StatusOK && t.generation > 0:
		c.notes.ended(end{t.piece, move, t.worker})
		c.notes.done(r.asked)
	case r.status == http.StatusOK: // by name alone: it is so, whoever has made it so
		if move == "done" {
			c.notes.ended(end{piece: t.piece, move: move})
		}
	case r.status == 0: // the run is over
	case r.status != http.StatusConflict:
		c.notes.fail("%s of %v: status %d", move, t.piece, r.status)
	case r.sure && time.Since(t.asked) < c.lease && c.notes.lasts(t.asked) && !c.taken(t.piece):
		c.notes.fail("%s of %v by %s: refused %s after it was asked for, within a lease of %s", move, t.piece,
			t.worker, time.Since(t.asked), c.lease)
	}
}
